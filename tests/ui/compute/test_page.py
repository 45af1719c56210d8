"""The page Compute as Streamlit draws it, without a browser: real profiles, a real test of one."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from bench_results import result, runs
from drawn_html import html
from pretended_benches import bench_result
from streamlit.testing.v1 import AppTest
from waiting import wait_until

import nodes
from engine.bench.result import keep_result
from engine.catalog import build_catalog
from engine.prices.dbu import dbu_table
from engine.profiles import default_profile, find_profile
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui import studio_context
from ui.compute import checks
from ui.compute import page as compute_page
from ui.studio_context import Studio

Open = Callable[..., AppTest]
pytestmark = pytest.mark.slow


def test_a_profile_is_made_changed_chosen_and_deleted(app: Open, workspace: Workspace) -> None:
    page = app("compute")
    assert "this machine" in html(page)
    page.button(key="compute_new").click().run()
    page.text_input(key="compute_draft_name").set_value("cluster")
    page.button_group(key="compute_draft_place").set_value("standalone").run()
    page.text_input(key="compute_draft_master_standalone").set_value("spark://10.0.0.5:7077")
    page.number_input(key="compute_draft_cores").set_value(2)
    page.text_input(key="compute_draft_memory").set_value("much").run()
    assert html(page).count("Memory: &#x27;much&#x27; is no amount of memory") == 1
    page.button(key="compute_save").click().run()
    assert html(page).count("Memory: &#x27;much&#x27; is no amount of memory") == 1
    assert not (workspace.root / "profiles.toml").exists()
    page.text_input(key="compute_draft_memory").set_value("2 GB").run()
    page.number_input(key="compute_draft_price").set_value(1.5).run()
    page.text_input(key="compute_draft_currency").set_value("eur").run()
    page.button(key="compute_save").click().run()
    assert "Saved cluster." in html(page)
    assert "1.5 EUR an hour" in html(page)
    made = find_profile("cluster", workspace)
    assert (made.backend, made.master, made.cores, made.memory_bytes) == (
        "spark",
        "spark://10.0.0.5:7077",
        2,
        2_000_000_000,
    )
    assert "spark://10.0.0.5:7077 · driver: 2 cores, 2.0 GB · 1.5 EUR an hour" in html(page)
    page.button(key="compute_default").click().run()
    assert default_profile(workspace) == "cluster"
    page.button(key="compute_delete_sure").click().run()
    assert default_profile(workspace) == "local"
    assert (workspace.root / "profiles.toml").read_text().strip() == ""


def test_a_profile_on_databricks_has_the_price_of_its_units_and_a_limit(app: Open, workspace: Workspace) -> None:
    page = app("compute")
    page.button(key="compute_new").click().run()
    assert not [n for n in page.number_input if n.key == "compute_draft_dbu_price"], "only for Databricks"
    page.text_input(key="compute_draft_name").set_value("bricks")
    page.button_group(key="compute_draft_place").set_value("databricks").run()
    page.number_input(key="compute_draft_dbu_price").set_value(0.3).run()
    page.button(key="compute_save").click().run()
    # Nothing is known of the machine: which field says so.
    shown = html(page)
    assert "Price of a DBU: how many units an hour takes is not known" in shown
    assert shown.count('role="alert"') == 1
    assert page.number_input(key="compute_draft_dbu_price").value == 0.3, "what was typed stays"
    page.selectbox(key="compute_draft_machine").set_value("Standard_D16s_v3@eastus").run()
    assert "is not known" not in html(page)
    assert page.number_input(key="compute_draft_dbu").placeholder == "3"
    page.text_input(key="compute_draft_stop_after").set_value("soon")
    page.number_input(key="compute_draft_stop_cost").set_value(0.0).run()
    assert "Stop after: &#x27;soon&#x27; is no time to stop after" in html(page)
    assert "Stop at a cost: must be above 0" in html(page)
    page.text_input(key="compute_draft_stop_after").set_value("1h30min")
    page.number_input(key="compute_draft_stop_cost").set_value(20.0).run()
    assert 'role="alert"' not in html(page)
    page.button(key="compute_save").click().run()
    # Of the driver and, where nothing else is said, two executors.
    assert "5.004 USD an hour" in html(page)
    made = find_profile("bricks", workspace)
    assert (made.price_per_dbu, made.dbu_per_hour, made.stop_after_s, made.stop_at_cost) == (0.3, 3, 5400, 20)
    page.number_input(key="compute_draft_dbu").set_value(2.0)
    page.text_input(key="compute_draft_stop_after").set_value("").run()
    page.button(key="compute_save").click().run()
    changed = find_profile("bricks", workspace)
    assert (changed.dbu_per_hour, changed.stop_after_s, changed.stop_at_cost) == (2, None, 20)


def test_a_cluster_on_databricks_has_a_driver_and_executors_of_other_types(app: Open, workspace: Workspace) -> None:
    file = workspace.root / "profiles.toml"
    file.write_text(
        '[bricks]\nbackend = "spark"\nmaster = "databricks"\nmachine = "Standard_D4s_v5@eastus"\nprice_per_dbu = 0.3\n'
    )
    page = app("compute", profile="bricks")
    assert not [b for b in page.button if b.key == "compute_default"], "no pipeline runs there from here"
    assert not [n for n in page.number_input if n.key == "compute_draft_executor_dbu"], "all are of the driver's type"
    page.selectbox(key="compute_draft_executor_machine").set_value("m5.4xlarge@us-east-1").run()
    page.button(key="compute_save").click().run()
    assert "how many units an hour of m5.4xlarge takes is not known" in html(page)
    page.number_input(key="compute_draft_executor_dbu").set_value(4.0).run()
    page.button(key="compute_save").click().run()
    made = find_profile("bricks", workspace)
    assert (made.executor_machine, made.executor_dbu_per_hour) == ("m5.4xlarge@us-east-1", 4.0)
    page.selectbox(key="compute_draft_executor_machine").set_value("Standard_D16s_v5@eastus").run()
    shown = page.number_input(key="compute_draft_executor_dbu")
    assert shown.placeholder == f"{dbu_table()['standard_d16s_v5'].dbu_per_hour:g}"
    # Where all are of one type again, nothing is left of it.
    page.selectbox(key="compute_draft_executor_machine").set_value("").run()
    page.button(key="compute_save").click().run()
    assert "executor" not in file.read_text()


def test_a_limit_of_cost_without_a_price_is_said_at_its_field(app: Open, workspace: Workspace) -> None:
    (workspace.root / "profiles.toml").write_text("[mine]\nstop_at_cost = 20\n")
    page = app("compute", profile="mine")
    assert "Stop at a cost: what an hour costs is not known, so runs with this limit cannot start." in html(page)
    page.number_input(key="compute_draft_price").set_value(1.5).run()
    assert "cannot start" not in html(page), "before it is saved"
    page.button(key="compute_save").click().run()
    assert "cannot start" not in html(page)


def test_that_a_price_is_not_known_is_said_of_the_machine_in_use_alone(app: Open, workspace: Workspace) -> None:
    (workspace.root / "machines.csv").write_text("name,cores\ncellar,8\n")
    (workspace.root / "profiles.toml").write_text('[mine]\nmachine = "cellar"\n')
    page = app("compute", profile="mine")
    said = "What an hour costs is not known: "
    assert said in html(page)
    page.selectbox(key="compute_draft_machine").set_value("m5.2xlarge@us-east-1").run()
    assert said not in html(page), "another machine is chosen"
    page.button(key="compute_save").click().run()
    assert said not in html(page)
    assert find_profile("mine", workspace).hourly_price == pytest.approx(0.384)


def test_a_limit_that_is_badly_written_is_not_taken_out_by_a_save(app: Open, workspace: Workspace) -> None:
    """Runs would have none."""
    file = workspace.root / "profiles.toml"
    file.write_text("[mine]\nstop_at_cost = inf\n")
    page = app("compute", profile="mine")
    page.number_input(key="compute_draft_cores").set_value(1).run()
    page.button(key="compute_save").click().run()
    assert "stop_at_cost = inf" in file.read_text()
    assert "Stop at a cost:" in html(page)
    page.number_input(key="compute_draft_stop_cost").set_value(20).run()
    page.number_input(key="compute_draft_price").set_value(1.5).run()
    page.button(key="compute_save").click().run()
    assert find_profile("mine", workspace).stop_at_cost == 20


@pytest.mark.parametrize("memory", ["²", "9" * 5000])
def test_a_memory_that_is_no_number_is_said_and_the_page_goes_on(app: Open, workspace: Workspace, memory: str) -> None:
    (workspace.root / "profiles.toml").write_text(f'[mine]\nmemory = "{memory}"\n')
    page = app("compute", profile="mine")
    assert not page.exception
    assert [heading for heading in ("Prices", "This machine") if heading not in html(page)] == []


def test_a_profile_begins_with_a_machine_of_the_whitepaper(app: Open, workspace: Workspace) -> None:
    page = app("compute")
    page.button(key="compute_new").click().run()
    page.selectbox(key="compute_example").select_index(2).run()
    shown = html(page)
    assert "4 cores, 28 GiB, 1 NVIDIA T4, network 1000 MB/s, 0.526 USD an hour (eastus, 2026-06-18)" in shown
    assert "19 min from an optimised Delta table" in shown
    page.button(key="compute_save").click().run()
    made = find_profile("Standard_NC4as_T4_v3", workspace)
    assert (made.cores, made.memory_bytes, made.gpus, made.hourly_price) == (4, 28 << 30, 1, 0.526)
    page.button(key="compute_new").click().run()
    assert page.selectbox(key="compute_example").value == "An empty profile"
    page.selectbox(key="compute_example").select_index(1).run()
    assert page.number_input(key="compute_draft_cores").value == 16
    assert page.text_input(key="compute_draft_memory").value == "64 GiB"


def test_executors_of_a_cluster_have_a_machine_type_of_their_own(app: Open, workspace: Workspace) -> None:
    file = workspace.root / "profiles.toml"
    file.write_text('[mine]\nbackend = "spark"\nmaster = "yarn"\nmachine = "m5.2xlarge"\n')
    page = app("compute", profile="mine")
    page.selectbox(key="compute_draft_executor_machine").set_value("m5.4xlarge@us-east-1").run()
    page.button(key="compute_save").click().run()
    assert find_profile("mine", workspace).hourly_price == pytest.approx(0.384 + 2 * 0.768)
    assert "1.92 USD an hour" in html(page)
    assert page.number_input(key="compute_draft_price").placeholder == "1.92"
    assert "What an hour costs" not in html(page)
    # A standalone cluster heeds no number of executors.
    file.write_text('[mine]\nbackend = "spark"\nmaster = "spark://h:7077"\nmachine = "m5.2xlarge"\n')
    said = "What an hour costs is not known: the profile mine does not say how many executors it has"
    page = app("compute", profile="mine")
    assert said in html(page)
    assert "cannot start" not in html(page)
    page.number_input(key="compute_draft_stop_cost").set_value(5.0).run()
    assert "Runs with a limit of cost cannot start." in html(page)


def test_measured_machines_are_compared(app: Open, workspace: Workspace) -> None:
    assert "Nothing is measured yet." in html(app("compute"))
    keep_result(workspace, result("<b>old</b>", *runs(100, 90, 80), price=0.5))
    keep_result(workspace, result("new", *runs(400, 390, 100), price=0.9, measured_at=2e9))
    page = html(app("compute"))
    assert "Nothing is measured yet." not in page
    assert "ResNet-18 on 30 x 30 x 10 x 10 float32, cold input" in page
    assert "&lt;b&gt;old&lt;/b&gt;" in page
    assert "new is the fastest: an epoch of 650,000 volumes takes 1 h 48 min and costs 1.62 USD." in page
    assert page.count("data:image/svg+xml;base64,") == 3


def test_a_file_changed_elsewhere_is_not_overwritten(app: Open, workspace: Workspace) -> None:
    file = workspace.root / "profiles.toml"
    file.write_text("[mine]\ncores = 1\n")
    page = app("compute", profile="mine")
    page.number_input(key="compute_draft_cores").set_value(2).run()
    file.write_text("[mine]\ncores = 1\ngpus = 0\n")
    page.button(key="compute_save").click().run()
    assert "was changed by another program meanwhile" in html(page)
    assert file.read_text() == "[mine]\ncores = 1\ngpus = 0\n"


def test_a_wrong_table_is_shown_with_what_is_wrong(app: Open, workspace: Workspace) -> None:
    (workspace.root / "profiles.toml").write_text("[mine]\ncores = 0\n")
    page = app("compute", profile="mine")
    assert "cores: must be a whole number of at least 1" in html(page)
    page.number_input(key="compute_draft_cores").set_value(2).run()
    page.button(key="compute_save").click().run()
    assert find_profile("mine", workspace).cores == 2


def test_a_profile_is_tested_from_the_page(app: Open, workspace: Workspace) -> None:
    (workspace.root / "profiles.toml").write_text("[mine]\ncores = 4096\n")
    page = app("compute", profile="mine")
    page.button(key="compute_test").click().run()
    wait_until(lambda: "missing of" in html(page.run()), details=lambda: html(page), pause_s=0.2)
    assert "4096 of the" in html(page)
    assert "Write cores = " in html(page)

    # Below it the machine, as it is now and over the last minutes.
    def charts() -> list[str]:
        shown = html(page.run())
        return re.findall(r">(CPU|Memory|Disk|Network)<", shown) if "memory used" in shown else []

    wait_until(lambda: {"CPU", "Memory", "Disk", "Network"} <= {*charts()}, details=lambda: html(page), pause_s=0.2)
    assert "disk free" in html(page)
    assert len(page.get("vega_lite_chart")) >= 4


def _tested(page: AppTest) -> AppTest:
    page.button(key="compute_test").click().run()
    wait_until(lambda: "mine can be used." in html(page.run()), details=lambda: html(page), pause_s=0.2)
    return page


def test_what_is_missing_is_said_with_the_command_that_helps(app: Open, workspace: Workspace) -> None:
    (workspace.root / "profiles.toml").write_text("[mine]\ngpus = 999\n")
    page = app("compute", profile="mine")
    page.button(key="compute_test").click().run()
    wait_until(lambda: "1 thing missing of" in html(page.run()), details=lambda: html(page), pause_s=0.2)
    assert "<code>nvidia-smi</code>" in html(page)


def test_a_verdict_goes_once_the_profile_is_another(app: Open, workspace: Workspace) -> None:
    file = workspace.root / "profiles.toml"
    file.write_text("[mine]\ncores = 1\n")
    page = _tested(app("compute", profile="mine"))
    page.text_input(key="compute_draft_root").set_value("/proc/nothing").run()
    assert "mine can be used." in html(page), "nothing is saved yet"
    page.button(key="compute_save").click().run()
    assert "mine can be used." not in html(page)
    # By hand, and a broken file in between.
    file.write_text("[mine]\ncores = 1\n")
    _tested(page.run())
    file.write_text("[mine")
    assert "profiles.toml" in html(page.run())
    file.write_text("# mine\n[mine]\ncores = 1\n")
    assert "mine can be used." in html(page.run()), "it says the same as when it was tested"
    file.write_text("[mine]\ncores = 1\n[mine.spark.executor]\ncores = 1\n")
    assert "mine can be used." not in html(page.run())
    # Deleted, and made again as it was.
    file.write_text("[mine]\ncores = 1\n")
    page = _tested(app("compute", profile="mine"))
    page.button(key="compute_delete_sure").click().run()
    assert file.read_text().strip() == ""
    file.write_text("[mine]\ncores = 1\n")
    assert "mine can be used." not in html(app("compute", profile="mine"))


def test_a_test_ends_once_the_profile_is_another(
    app: Open, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Instead of Python: a test that takes long.
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(checks, "PROGRAM", (str(program),))
    file = workspace.root / "profiles.toml"
    file.write_text("[mine]\ncores = 1\n")
    page = app("compute", profile="mine")
    page.button(key="compute_test").click().run()
    test = compute_page._tests.newest("mine", workspace)
    assert test is not None
    assert test.running
    file.write_text("[mine]\ncores = 2\n")
    assert page.run().button(key="compute_test").label == "Test"
    wait_until(lambda: not test.running, "the end of the test")
    assert test.exit_status == -signal.SIGKILL


def test_a_training_is_advised_on_or_the_reason_is_given_once(app: Open, workspace: Workspace, store: RunStore) -> None:
    built_in = build_catalog(nodes.BUILT_IN)
    studio_context.install(Studio(workspace, store, workspace.root, lambda _: built_in))
    page = app("compute")
    choice = page.selectbox(key="advice_pipeline")
    assert (choice.value, choice.options[:2]) == ("quickstart", ["quickstart", "volumes-to-resnet"])
    assert "No machine was measured yet." in html(page)
    # A price that is set beside it counts at once.
    (workspace.root / "profiles.toml").write_text('default = "desk"\n[desk]\ncores = 2\nmachine = "m5.2xlarge"\n')
    keep_result(workspace, bench_result("desk"))
    shown = html(page.run())
    assert "recommended" in shown
    bargain = "name,cores,memory_gib,gpus,price_per_hour,currency\nbargain,16,64,0,0.0001,USD\n"
    (workspace.root / "machines.csv").write_text(bargain)
    assert "bargain" not in shown
    assert "bargain" in html(page.run())
    choice.set_value("cross-validation").run()
    assert html(page).count("No prediction yet: the number and shape of its volumes are known once") == 1
    assert "Train on all but fold 1, Train on all but fold 2" in html(page)


def test_another_profile_is_drawn_in_another_place(app: Open, workspace: Workspace) -> None:
    """Streamlit would leave the elements of the one before in the page until all of it is drawn."""
    (workspace.root / "profiles.toml").write_text("[mine]\ncores = 1\n")
    page = app("compute", profile="mine")

    def place() -> int:
        """Which of the two places in the right column has the profile's elements."""
        right = page.columns[1]
        (found,) = [number for number, slot in right.children.items() if len(getattr(slot, "children", ()))]
        return found

    first = place()
    assert place() == first
    page.number_input(key="compute_draft_cores").set_value(2).run()
    assert place() == first
    page.button(key="compute_new").click().run()
    assert place() != first
    page.button(key="compute_open_mine").click().run()
    assert place() == first
