"""Compute profiles: named places to run. `local` is this machine; more stand in the workspace's `profiles.toml`."""

from engine.profiles.find import (
    Listed,
    default_profile,
    find_profile,
    list_profiles,
    local_profile,
    profile_names,
    profiles_file,
    unreadable,
)
from engine.profiles.profile import Backend, Check, Profile, spark_settings, variables_of

__all__ = [
    "Backend",
    "Check",
    "Listed",
    "Profile",
    "default_profile",
    "find_profile",
    "list_profiles",
    "local_profile",
    "profile_names",
    "profiles_file",
    "spark_settings",
    "unreadable",
    "variables_of",
]
