"""Pictures of what a person sees: the live display, the dashboard, and pages of the documentation site."""

from __future__ import annotations
