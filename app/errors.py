"""The one error tree of app/: what, where and the next action. What goes out over HTTP is in problems.py."""

from __future__ import annotations

from control.errors import Explained


class AppError(Explained):
    """Something the console or its client was given cannot be."""


class PortError(AppError):
    """The address cannot be listened on."""


class RegistryError(AppError):
    """A route without a role, or one that is named twice."""


class ClientError(AppError):
    """The command-line client cannot do what it was asked to."""


class UnreachableError(ClientError):
    """No console answers at the address."""


class AddressError(AppError):
    """A webhook's address may not be connected to."""
