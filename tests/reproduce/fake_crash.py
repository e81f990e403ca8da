from tests.reproduce.fakes import make

EXPERIMENT = make("crash", crash=True)
