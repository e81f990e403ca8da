from tests.reproduce.fakes import make

EXPERIMENT = make("other")
