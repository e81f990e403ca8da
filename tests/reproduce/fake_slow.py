from tests.reproduce.fakes import make

EXPERIMENT = make("slow", pause=0.4, instances=16)
