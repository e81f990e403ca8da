from tests.reproduce.fakes import make

EXPERIMENT = make("wrong", holds=False)
