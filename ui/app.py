"""Streamlit's main script: `voxelflow studio` runs it."""

from __future__ import annotations

from ui.shell import navigation

navigation.show()
