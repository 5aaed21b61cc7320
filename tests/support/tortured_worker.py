"""A worker that takes runs forward step by step, until its parent ends it."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from agent_handoff_kit import Relay
from agent_handoff_kit.errors import LostOwnership, RunAlreadyCompleted, RunInProgress

STEPS = 100_000


def main() -> None:
    database, runs, log = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    with Relay(database, lease_ttl=0.25) as relay:
        while True:
            try:
                take_forward(relay, f"r{random.randrange(runs)}")
            except (RunInProgress, RunAlreadyCompleted):
                time.sleep(0.005)
            except LostOwnership:
                with log.open("a") as file:
                    file.write("refused\n")


def take_forward(relay: Relay, run_id: str) -> None:
    with relay.run(run_id) as run:
        for _ in range(random.randrange(1, 4)):
            found = relay.recover(run_id)
            step = 0 if found is None else found.context["step"]
            if step == STEPS:
                relay.complete(run_id, step)
                return
            time.sleep(random.uniform(0.005, 0.03))
            relay.handoff(run_id, f"agent {step}", f"agent {step + 1}", {"step": step + 1, "token": run.token})


if __name__ == "__main__":
    main()
