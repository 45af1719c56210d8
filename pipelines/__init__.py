"""Ready pipelines and templates, as JSON beside this file."""
