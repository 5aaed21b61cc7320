# Never run, and not part of the project's own mypy and pyright runs: a test hands this file to mypy as a user's code.
from agent_handoff_kit import Checkpoint, Relay

relay = Relay("x")
checkpoint: Checkpoint = relay.checkpoint("r", "a", "b", {"k": 1}, ["k"])
relay.verify(checkpoint)
found: Checkpoint | None = relay.recover("r")
Relay("x").nonsense()  # the planted error
relay.close()
