from tests.reproduce.fakes import make

EXPERIMENT = make("dying", kill_at=2)
