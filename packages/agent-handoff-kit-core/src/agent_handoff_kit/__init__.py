"""Verified, durable handoffs between agents: checkpoint, verify, recover."""

import pkgutil

from agent_handoff_kit.core import Relay
from agent_handoff_kit.errors import HandoffKitError, HandoffVerificationError
from agent_handoff_kit.models import (
    Checkpoint,
    HandoffStatus,
    checkpoint_messages,
    checkpoint_state,
    make_handoff_envelope,
)
from agent_handoff_kit.pipeline import Pipeline, Step
from agent_handoff_kit.store import CheckpointStore

__version__ = "0.2.0"

__all__ = [
    "Checkpoint",
    "CheckpointStore",
    "HandoffKitError",
    "HandoffStatus",
    "HandoffVerificationError",
    "Pipeline",
    "Relay",
    "Step",
    "__version__",
    "checkpoint_messages",
    "checkpoint_state",
    "make_handoff_envelope",
]

# Adapters are distributions of their own that add subpackages here. Wheels land in this folder;
# editable installs and other site directories do not.
__path__ = pkgutil.extend_path(__path__, __name__)
