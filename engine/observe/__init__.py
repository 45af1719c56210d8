"""All that is read before a run: sources, their manifests, results of earlier runs."""
