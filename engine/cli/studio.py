"""`voxelflow studio`: serve the app, and open it in the browser."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.session import Session, workspace_option


@click.command("studio", short_help="Draw, run and watch pipelines in the browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="The port; 0 takes any free one. Default: 8501, or the next one that is free.",
)
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. With any other than this computer's own, whoever reaches it can run pipelines.",
)
@click.option("--no-browser", is_flag=True, help="Only print the app's URL.")
@workspace_option
@click.pass_obj
def command(session: Session, port: int | None, address: str, no_browser: bool, root: Path | None) -> int:
    """Serve the app, where pipelines are drawn, run and watched, and open it in the browser.

    Ctrl-C ends the app. Runs are processes of their own and go on; the app finds them again.

    Streamlit's settings (.streamlit/config.toml, such as a certificate or a login) are read from the
    current directory and from your home; the address, the port and what keeps other web sites out
    are set here.
    """
    return session.start_studio(
        session.workspace(root), address=address, port=port, open_browser=not no_browser, traceback=session.traceback
    )
