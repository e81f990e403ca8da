from tests.reproduce.fakes import make

EXPERIMENT = make("good")
