"""Every route of the API, in the order of the documentation."""

from __future__ import annotations

from app.api import (
    about,
    actions,
    advice,
    alerts,
    export,
    nodes,
    orders,
    proposals,
    queries,
    rules,
    secrets,
    series,
    users,
    webhooks,
)
from app.api.table import Route

ROUTES: tuple[Route, ...] = (
    *queries.ROUTES,
    *nodes.ROUTES,
    *series.ROUTES,
    *advice.ROUTES,
    *orders.ROUTES,
    *proposals.ROUTES,
    *actions.ROUTES,
    *rules.ROUTES,
    *alerts.ROUTES,
    *users.ROUTES,
    *secrets.ROUTES,
    *webhooks.ROUTES,
    *export.ROUTES,
    *about.ROUTES,
)
