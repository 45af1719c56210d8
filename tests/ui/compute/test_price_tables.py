"""The page Compute's tables of prices, as Streamlit draws them without a browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from drawn_html import html
from streamlit.testing.v1 import AppTest

from engine.prices import machine_table
from engine.workspace import Workspace

Open = Callable[..., AppTest]


pytestmark = pytest.mark.slow


def shown_prices(page: AppTest) -> list[str]:
    assert not page.exception, [e.message for e in page.exception]
    return [str(name) for name in page.dataframe[0].value["machine"]]


def tick(page: AppTest, name: str) -> AppTest:
    """Tick a machine in the table: AppTest has no clicks on it."""
    keys = page.session_state["prices_shown"]
    at = next(key for key in keys if key.partition("@")[0] == name)
    page.session_state["prices_selected"] = at
    return page.run()


def test_prices_are_searched_on_the_page(app: Open, workspace: Workspace) -> None:
    page = app("compute")
    everything = shown_prices(page)
    assert len(everything) > 100
    page.text_input(key="prices_search").set_value("azure t4 westeurope").run()
    assert shown_prices(page) == [f"Standard_NC{n}as_T4_v3" for n in (4, 8, 16)]
    assert f"3 of {len(everything)} prices" in html(page)
    page.text_input(key="prices_search").set_value("").run()
    page.toggle(key="prices_gpu").set_value(True).run()
    assert 0 < len(shown_prices(page)) < len(everything)
    page.text_input(key="prices_search").set_value("quantum").run()
    assert "No machine has all of that." in html(page)
    assert not page.dataframe
    page.text_input(key="prices_search").set_value("").run()
    assert len(shown_prices(page)) > 0


def test_a_price_of_ones_own_goes_before_the_shipped_one_and_can_be_taken_back(app: Open, workspace: Workspace) -> None:
    file = workspace.root / "machines.csv"
    page = tick(app("compute"), "m5.2xlarge")
    key = "prices_own_m5.2xlarge@us-east-1"
    assert page.number_input(key=f"{key}_price").value == 0.384
    shown = html(page)
    assert "https://github.com/aws/karpenter-provider-aws/" in shown
    page.text_input(key=f"{key}_currency").set_value("dollar")
    page.button(key=f"{key}_save").click().run()
    assert "Currency: must be the three letters of a currency, not &#x27;dollar&#x27;" in html(page)
    assert not file.exists()
    # A price that looks wrong is not taken unasked.
    page.text_input(key=f"{key}_currency").set_value("USD")
    page.number_input(key=f"{key}_price").set_value(0.3)
    page.number_input(key=f"{key}_spot").set_value(0.9)
    page.button(key=f"{key}_save").click().run()
    assert "on the spot market costs more than on demand" in html(page)
    assert not file.exists()
    page.number_input(key=f"{key}_spot").set_value(0.1)
    page.button(key=f"{key}_save").click().run()
    assert "m5.2xlarge@us-east-1 costs 0.3 USD, spot 0.1 USD an hour, by machines.csv." in html(page)
    mine = machine_table(workspace).find("m5.2xlarge")
    assert (mine.price_per_hour, mine.spot_per_hour, mine.cores, mine.origin) == (0.3, 0.1, 8, "machines.csv")
    row = page.dataframe[0].value.set_index("machine").loc["m5.2xlarge"]
    assert (row["from"], row["price"]) == ("own", 0.3)
    page.button(key="prices_out_sure").click().run()
    assert machine_table(workspace).find("m5.2xlarge").price_per_hour == 0.384
    assert page.number_input(key=f"{key}_price").value == 0.384, "not what was typed before"


def test_own_rows_of_any_kind_are_shown(app: Open, workspace: Workspace) -> None:
    (workspace.root / "machines.csv").write_text(
        "name,price_per_hour,currency,date,source\n"
        "<b>a</b>,1e15,EUR,0001-01-01,javascript:alert(1) https://x.org/<i> contract\nb,,,9999-12-31,\n"
    )
    page = tick(app("compute"), "<b>a</b>")
    shown = html(page)
    assert "&lt;b&gt;a&lt;/b&gt;" in shown
    assert 'href="javascript' not in shown
    assert "javascript:alert(1)" in shown, "as text"
    assert 'href="https://x.org/&lt;i&gt;"' in shown
    assert page.text_input(key="prices_own_<b>a</b>_date").value == "0001-01-01"
    page = tick(page, "b")
    page.button(key="prices_own_b_save").click().run()
    assert "Price an hour: there is none" in html(page)
    page.number_input(key="prices_own_b_price").set_value(2.0)
    page.button(key="prices_own_b_save").click().run()
    assert "b costs 2 an hour, by machines.csv." in html(page)
    assert machine_table(workspace).find("<b>a</b>").source.endswith("contract"), "the others stay"


def test_a_price_that_looks_wrong_is_taken_when_asked_for(app: Open, workspace: Workspace) -> None:
    page = tick(app("compute"), "m5.2xlarge")
    key = "prices_own_m5.2xlarge@us-east-1"
    page.number_input(key=f"{key}_spot").set_value(0.9)
    page.button(key=f"{key}_save").click().run()
    page.button(key="prices_anyway").click().run()
    assert machine_table(workspace).find("m5.2xlarge").spot_per_hour == 0.9
    # As of rows that were edited by hand, it is said whenever prices are shown.
    assert "Some prices of machines.csv look wrong." in html(page)


def test_a_csv_file_is_looked_at_before_it_is_imported(app: Open, workspace: Workspace) -> None:
    file = workspace.root / "machines.csv"
    page = app("compute")

    def send(text: bytes) -> str:
        page.file_uploader[0].set_value(("ours.csv", text, "text/csv"))
        return html(page.run())

    for wrong, said in (
        (b"", "ours.csv is empty"),
        (b"name\n\xff\n", "ours.csv is not text in UTF-8"),
        (b"name,gpu\nx,=1+1\n", "ours.csv, line 2, gpu: &#x27;=1+1&#x27; is a formula"),
        (b"name,prize\nx,1\n", "ours.csv has a column &#x27;prize&#x27;"),
    ):
        shown = send(wrong)
        assert said in shown
        assert shown.count('role="alert"') == 1
    rows = b"name,region,price_per_hour,currency\nStandard_D16ads_v5,here,1.56,USD\nStandard_D8ads_v5,here,0.412,USD\n"
    shown = send(rows)
    assert "1 price may be wrong. Nothing is imported yet." in shown
    assert "costs 3.79 times as much as Standard_D8ads_v5" in shown
    assert page.button(key="prices_take").label == "Import anyway"
    page.button(key="prices_leave").click().run()
    assert not page.file_uploader[0].value
    assert not file.exists()
    shown = send(rows.replace(b"1.56", b"0.824") + b"<b>cellar</b>,,0.9,EUR\n")
    assert "3 machines: 3 new" in shown
    assert "&lt;b&gt;cellar&lt;/b&gt;" in shown
    assert "wrong" not in shown
    page.button(key="prices_take").click().run()
    assert "3 machines added, 0 replaced in machines.csv." in html(page)
    assert not page.file_uploader[0].value
    assert machine_table(workspace).find("<b>cellar</b>").price_per_hour == 0.9
    # A profile can have them at once.
    assert "Standard_D8ads_v5@here" in page.selectbox(key="compute_draft_machine").options


def test_a_machine_is_added_by_a_form(app: Open, workspace: Workspace) -> None:
    (workspace.root / "profiles.toml").write_text("")
    page = app("compute")

    def add(**fields: object) -> str:
        for name, value in fields.items():
            box = page.number_input if isinstance(value, int | float) else page.text_input
            box(key=f"prices_new_{name}").set_value(value)  # type: ignore[operator]
        page.button(key="prices_new_add").click().run()
        return html(page)

    assert "Name: there is none" in add(price=1.5)
    assert "Currency: must be the three letters of a currency" in add(name="lab-box", currency="dollar")
    assert "Name: there is a machine m5.2xlarge@us-east-1 already" in add(
        name="m5.2xlarge", region="us-east-1", currency="eur"
    )
    assert not (workspace.root / "machines.csv").exists()
    shown = add(name="lab-box", region="", provider="<b>ours</b>", cores=64, memory=256.0, gpu="NVIDIA T4")
    assert "lab-box is in machines.csv, at 1.5 EUR an hour." in shown
    found = machine_table(workspace).find("lab-box")
    assert (found.cores, found.memory_gib, found.gpus, found.gpu) == (64, 256.0, 1, "NVIDIA T4")
    assert (found.price_per_hour, found.currency, found.provider) == (1.5, "EUR", "<b>ours</b>")
    assert page.text_input(key="prices_new_name").value == "", "ready for the next"
    assert "lab-box" in page.selectbox(key="compute_draft_machine").options


def test_an_added_machine_whose_price_looks_wrong_is_asked_about(app: Open, workspace: Workspace) -> None:
    page = app("compute")
    page.text_input(key="prices_new_name").set_value("m5.2xlarge")
    page.text_input(key="prices_new_region").set_value("moon")
    page.text_input(key="prices_new_currency").set_value("USD")
    page.number_input(key="prices_new_price").set_value(99.0)
    page.button(key="prices_new_add").click().run()
    assert "Nothing is added yet." in html(page)
    assert not (workspace.root / "machines.csv").exists()
    page.button(key="prices_add_anyway").click().run()
    assert machine_table(workspace).find("m5.2xlarge@moon").price_per_hour == 99


def test_what_object_storage_costs_is_shown(app: Open, workspace: Workspace) -> None:
    rows = "provider,class,region,per_10000_reads,per_month,unit,currency\ns3,<i>cold</i>,here,0.25,0.5,GiB,EUR\n"
    (workspace.root / "storage.csv").write_text(rows)
    shown = html(app("compute"))
    for cell in ("&lt;i&gt;cold&lt;/i&gt;", "0.25 EUR", "0.5 EUR a GiB", "hot LRS", "storage.csv"):
        assert cell in shown, cell
    (workspace.root / "storage.csv").write_text("nome\n")
    assert "storage.csv has no column provider" in html(app("compute"))


def test_own_prices_that_cannot_be_read_are_not_written_over(app: Open, workspace: Workspace) -> None:
    (workspace.root / "machines.csv").write_text("nome\n")
    page = app("compute")
    assert "machines.csv has no column name" in html(page)
    assert len(shown_prices(page)) > 100
    page.file_uploader[0].set_value(("ours.csv", b"name\nx\n", "text/csv"))
    page.run()
    assert not [button for button in page.button if button.key == "prices_take"]
    assert (workspace.root / "machines.csv").read_text() == "nome\n"
