"""The features of a worker: the one place where they are listed. feature/ says what a feature is."""

from collections.abc import Callable

from orchestrator.config import Config
from orchestrator.execute import Registry
from orchestrator.feature import Feature, Host, Joined
from orchestrator.postgres.connections import Connections

# One line each; their connections are named "orchestrator " and the feature's name.
FEATURES: tuple[Feature, ...] = ()


def joined(
    config: Config, registry: Registry, connections: Connections, *, ring: Callable[[], None]
) -> Joined:
    """Return the features of one worker."""
    return Joined(FEATURES, Host(config, registry, ring), session=connections.session)
