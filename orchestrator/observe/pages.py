"""The pages that are served: /metrics, /healthz, /readyz."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder

from orchestrator.observe.health import Health, readiness
from orchestrator.observe.multiprocess import Processes
from orchestrator.observe.server import Answer, Page


def own_pages(health: Callable[[], Health], registry: CollectorRegistry = REGISTRY) -> dict[str, Page]:
    """Return the pages of a single worker."""
    return pages(registry, lambda: readiness(health()))


def multiprocess_pages(processes: Processes) -> dict[str, Page]:
    """Return the pages of a parent, for all its children."""
    registry = CollectorRegistry()
    registry.register(processes)
    return pages(registry, processes.readiness)


def pages(registry: CollectorRegistry, ready: Callable[[], Mapping[str, Any]]) -> dict[str, Page]:
    """Return the pages for this registry and this check of readiness."""

    def metrics(accept: str) -> Answer:
        encoder, content_type = choose_encoder(accept)
        return Answer(encoder(registry), content_type)

    def healthz(_accept: str) -> Answer:
        return Answer(b'{"alive": true}\n', "application/json")

    def readyz(_accept: str) -> Answer:
        report = ready()
        status = HTTPStatus.OK if report["ready"] else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer(json.dumps(report).encode() + b"\n", "application/json", status)

    return {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}
