from tests.reproduce.fakes import make

EXPERIMENT = make("mistaken", mistake=0.5)
