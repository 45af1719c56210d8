"""The command itself: its verbs, and what every error becomes for the person and for the shell."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from engine.cli.session import Session
from engine.cli.wording import safe
from engine.errors import CheckFailed, VoxelflowError

if TYPE_CHECKING:
    from engine.catalog import Catalog
    from engine.cli.session import AskModel, StartStudio
    from engine.workspace import Workspace

VERBS = ("studio", "run", "plan", "validate", "export", "nodes", "runs", "predict", "profiles", "new", "clean")
TRACEBACK = "VOXELFLOW_TRACEBACK"
WRONG, LOST, INTERRUPTED, READER_GONE = 2, 3, 130, 141

_EPILOG = f"""\b
Exit status:
  0    done
  1    the run failed, or something unexpected went wrong
  {WRONG}    the command, the pipeline or the workspace is wrong; nothing was started
  {LOST}    the run was lost: its process ended without a word (`voxelflow runs resume`)
  {INTERRUPTED}  cancelled
  {READER_GONE}  whoever read the output went away; a run that was started goes on
\b
Environment:
  VOXELFLOW_WORKSPACE   the workspace when --workspace is not given
  VOXELFLOW_DATA_ROOTS  more folders that documents may name, separated by "{os.pathsep}"
  VOXELFLOW_TRACKING    "off" keeps runs out of MLflow
  VOXELFLOW_TRACEBACK   "1" shows tracebacks, as --traceback does
  MLFLOW_TRACKING_URI   the MLflow server; without it, a file in the workspace
"""


class _Verbs(click.Group):
    """Imports a verb's module when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        out = importlib.import_module(f"engine.cli.{cmd_name}").command
        assert isinstance(out, click.Command)
        return out


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
    if ctx.invoked_subcommand is None and (studio := voxelflow.get_command(ctx, "studio")) is not None:
        return ctx.invoke(studio)
    return None


def run_command(
    arguments: Sequence[str],
    catalog: Callable[[Workspace | None], Catalog],
    studio: StartStudio,
    ask_model: AskModel,
) -> int:
    """Parse and run; every exception becomes lines on standard error and an exit status."""
    for stream in (sys.stdout, sys.stderr):
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            # A name that the terminal's encoding cannot show must not end the command.
            reconfigure(errors="backslashreplace")
    try:
        # Not `voxelflow.main`: that one has its own mind about Ctrl-C, closed pipes and the exit status.
        session = Session(catalog, studio, ask_model, _wants_traceback(arguments))
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
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as exc:
        return _tell(exc, arguments)


def _wants_traceback(arguments: Sequence[str]) -> bool:
    return "--traceback" in arguments or os.environ.get(TRACEBACK, "") not in ("", "0")


def _tell(exc: Exception, arguments: Sequence[str]) -> int:
    """Print the error; gives the exit status."""
    wants_traceback = _wants_traceback(arguments)
    if wants_traceback:
        traceback.print_exception(exc)
    told = _described(exc)
    for diagnostic in told.get("diagnostics", ()):
        print(safe(diagnostic.line()), file=sys.stderr)
    line, hint = told.pop("line"), ""
    if told["code"] == "unexpected" and not wants_traceback:
        hint = f" ({TRACEBACK}=1 or `voxelflow --traceback ...` shows where)"
    print(f"error: {safe(line)}{hint}", file=sys.stderr)
    status: int = told.pop("status")
    if "--json" in arguments:
        from engine.cli.screen import say_json

        told["diagnostics"] = [d.model_dump(mode="json") for d in told.get("diagnostics", ())]
        say_json({"event": "error", **told})
    return status


def _described(exc: Exception) -> dict[str, Any]:
    if isinstance(exc, VoxelflowError):
        out: dict[str, Any] = {
            "code": exc.code,
            "message": exc.message,
            "hint": exc.hint,
            "node": exc.node,
            "parameter": exc.parameter,
        }
        out |= {"line": exc.line(), "status": exc.exit_code}
        return out | ({"diagnostics": exc.diagnostics} if isinstance(exc, CheckFailed) else {})
    if isinstance(exc, click.ClickException):
        command = exc.ctx.command_path if isinstance(exc, click.UsageError) and exc.ctx else "voxelflow"
        message = exc.format_message()
        hint = f"`{command} --help` shows how."
        return {"code": "usage", "message": message, "hint": hint, "line": f"{message} {hint}", "status": WRONG}
    if isinstance(exc, OSError) and exc.strerror:
        message = f"{exc.filename}: {exc.strerror}" if exc.filename else exc.strerror
        return {"code": "os", "message": message, "line": message, "status": 1}
    message = f"{type(exc).__name__}: {exc}"
    return {"code": "unexpected", "message": message, "line": message, "status": 1}
