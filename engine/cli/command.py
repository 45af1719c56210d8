"""The command itself: its verbs, and what every error becomes for the person and for the shell."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.cli.session import Session, workspace_option
from engine.diagnostics.rule import CheckFailed
from engine.errors import TRACEBACK, VoxelflowError, wants_traceback
from engine.extras import missing_package
from engine.processes.interrupt import INTERRUPTED, SAID, raise_at_interrupt
from engine.storage.io_errors import explain
from engine.text import did_you_mean, safe

if TYPE_CHECKING:
    from engine.catalog import Catalog
    from engine.cli.node_work import NodeWork, StartStudio
    from engine.workspace import Workspace

VERBS = (
    "studio", "run", "sweep", "plan", "validate", "explain", "export", "nodes", "runs", "predict", "verify", "profiles",
    "prices", "probe", "bench", "advise", "new", "clean",
)  # fmt: skip
WRONG, LOST, READER_GONE = 2, 3, 141

_EPILOG = f"""\b
Exit status:
  0    done
  1    the run failed, or something unexpected went wrong
  {WRONG}    the command, the pipeline or the workspace is wrong; nothing was started
  {LOST}    the run was lost: its process died without reporting a result (`voxelflow runs resume`)
  {INTERRUPTED}  cancelled
  {READER_GONE}  the program that read the output has ended; a run that was started goes on
\b
Environment:
  VOXELFLOW_WORKSPACE   the workspace when --workspace is not given
  VOXELFLOW_DATA_ROOTS  more folders that documents may name, separated by "{os.pathsep}"
  VOXELFLOW_TRACKING    "off" keeps runs out of MLflow
  VOXELFLOW_TRACEBACK   "1" shows tracebacks, as --traceback does, and writes
                        them into the logs of nodes
  MLFLOW_TRACKING_URI   the MLflow server; without it, a file in the workspace
"""


class _Verbs(click.Group):
    """Imports a verb's module when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS or cmd_name == "studio":
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module("engine.cli.plan" if cmd_name == "validate" else f"engine.cli.{cmd_name}")
        out = module.validate if cmd_name == "validate" else module.command
        assert isinstance(out, click.Command)
        return out

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Click knows the imported commands alone, and offers none of the others.
        if args[0] not in VERBS and (near := did_you_mean(args[0], VERBS)):
            raise click.UsageError(f"No such command {args[0]!r}. {near}", ctx)
        return super().resolve_command(ctx, args)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"voxelflow {version('voxelflow')}")
        ctx.exit()


@click.group(cls=_Verbs, epilog=_EPILOG, invoke_without_command=True, context_settings={"max_content_width": 100})
@click.option("--traceback", is_flag=True, help="Show the traceback of an error.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="The version.")
@click.pass_context
def voxelflow(ctx: click.Context, traceback: bool) -> Any:
    """Turn folders of small 3-D volumes into a trained 3-D ResNet, by pipelines saved as JSON.

    Without a command it does what `voxelflow studio` does: it opens the app in the browser.
    """
    raise_at_interrupt()  # the verb's module is imported, and begins now
    return ctx.invoke(studio) if ctx.invoked_subcommand is None else None


@voxelflow.command("studio", short_help="Draw, run and watch pipelines in the browser.")
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
    help="The address to listen on. Beyond this computer (say, 0.0.0.0) the app asks for its access token or a login.",
)
@click.option("--no-browser", is_flag=True, help="Only print the app's URL.")
@workspace_option
@click.pass_obj
def studio(session: Session, port: int | None, address: str, no_browser: bool, root: Path | None) -> int:
    """Serve the app, where pipelines are drawn, run and watched, and open it in the browser.

    Ctrl-C ends the app. Runs are processes of their own and go on; the app finds them again.

    Streamlit's settings (.streamlit/config.toml, such as a certificate or a login) are read from the
    current directory and from your home; the address, the port and what keeps other web sites out
    are set here.

    From other computers the app requires the access token in the printed URL, which is new at each start
    (VOXELFLOW_TOKEN sets one, and asks for it on this computer too), or a login: [auth] in
    .streamlit/secrets.toml, with users = ["ann@example.org", "*@lab.example.org"] beside Streamlit's own settings.
    """
    return session.start_studio(
        session.workspace(root), address=address, port=port, open_browser=not no_browser, traceback=session.traceback
    )


def run_command(
    arguments: Sequence[str],
    catalog: Callable[[Workspace | None], Catalog],
    studio: StartStudio,
    work: NodeWork,
) -> int:
    """Parse and run; every exception becomes lines on standard error and an exit status."""
    _print_any_name()
    session = Session(catalog, studio, work, _wants_traceback(arguments))
    try:
        # Not `voxelflow.main`: that one has its own mind about Ctrl-C, closed pipes and the exit status.
        with voxelflow.make_context("voxelflow", list(arguments), obj=session) as context:
            status = voxelflow.invoke(context)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except BrokenPipeError:
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except (KeyboardInterrupt, click.Abort):
        print(SAID, end="", file=sys.stderr)
        return INTERRUPTED
    except Exception as exc:
        return _report(exc, arguments, session)


def _print_any_name() -> None:
    """A name that the terminal's encoding cannot show must not end the command."""
    # Not in `run_command`: an error of a file without a name is put down to what its callers have open.
    for stream in (sys.stdout, sys.stderr):
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")


def _wants_traceback(arguments: Sequence[str]) -> bool:
    return "--traceback" in arguments or wants_traceback()


def _report(exc: Exception, arguments: Sequence[str], session: Session) -> int:
    """Print the error; gives the exit status."""
    wants_traceback = _wants_traceback(arguments)
    if wants_traceback:
        traceback.print_exception(exc)
    described = _described(exc)
    for diagnostic in described.get("diagnostics", ()):
        print(safe(diagnostic.line()), file=sys.stderr)
    line, where = described.pop("line"), ""
    if described["code"] == "unexpected" and not wants_traceback:
        where = f" ({TRACEBACK}=1 or `voxelflow --traceback ...` shows where)"
    print(f"error: {safe(line)}{where}", file=sys.stderr)
    status: int = described.pop("status")
    if "--json" in arguments:
        from engine.cli.screen import say_json

        described["diagnostics"] = [d.model_dump(mode="json") for d in described.get("diagnostics", ())]
        with suppress(OSError):  # that nothing can be printed there may be the error
            say_json({"event": "error", **described})
    elif isinstance(exc, CheckFailed) and (pointer := session.pointer(exc.diagnostics)):
        print(pointer, file=sys.stderr)
    return status


def _described(exc: Exception) -> dict[str, Any]:
    exc = missing_package(exc) or explain(exc, in_run=False) or exc
    if isinstance(exc, VoxelflowError):
        out: dict[str, Any] = {name: getattr(exc, name) for name in ("code", "message", "hint", "node", "parameter")}
        out |= {"line": exc.line(), "status": exc.exit_code}
        return out | ({"diagnostics": exc.diagnostics} if isinstance(exc, CheckFailed) else {})
    if isinstance(exc, click.ClickException):
        command = exc.ctx.command_path if isinstance(exc, click.UsageError) and exc.ctx else "voxelflow"
        message = exc.format_message()
        hint = f"`{command} --help` shows how."
        return {"code": "usage", "message": message, "hint": hint, "line": f"{message} {hint}", "status": WRONG}
    message = f"{type(exc).__name__}: {exc}"
    return {"code": "unexpected", "message": message, "line": message, "status": 1}
