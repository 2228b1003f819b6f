"""Long tables: AG Grid with the console's looks, numbers on the right, sorted and paged by keyboard.

Columns are dicts made by `text` and `number`; what is shown is formatted in Python, what is sorted by is the figure
itself (`field` holds the figure, `<field>_text` what is read).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dash_ag_grid as dag  # type: ignore[import-untyped]
from dash.development.base_component import Component

from app.components.kit import d

_PARAMETERS = {
    "backgroundColor": "var(--bg-surface)",
    "foregroundColor": "var(--text)",
    "headerBackgroundColor": "var(--bg-surface)",
    "headerTextColor": "var(--text-3)",
    "borderColor": "var(--line)",
    "accentColor": "var(--accent)",
    "rowHoverColor": "var(--bg-hover)",
    "selectedRowBackgroundColor": "var(--accent-soft)",
    "checkboxUncheckedBorderColor": "var(--line-ctl)",
    "fontFamily": "inherit",
    "headerFontFamily": "inherit",
    "headerColumnResizeHandleColor": "transparent",
    "browserColorScheme": "inherit",
}
_SIZES = {
    "fontSize": 12,
    "headerFontSize": 11,
    "headerFontWeight": 400,
    "spacing": 4,
    "cellHorizontalPadding": 8,
    "rowHeight": 26,
    "headerHeight": 26,
}
_BORDERS = "rowBorder:{color:'var(--line)'},headerRowBorder:{color:'var(--line)'},wrapperBorder:false,columnBorder:false"


def _theme() -> str:
    """One text for both colour schemes: tokens are the browser's to resolve."""
    texts = ",".join(f"{name}:'{value}'" for name, value in _PARAMETERS.items())
    sizes = ",".join(f"{name}:{value}" for name, value in _SIZES.items())
    return f"themeQuartz.withParams({{{texts},{sizes},{_BORDERS}}})"


def text(field: str, name: str, width: int = 100, **more: Any) -> dict[str, Any]:
    return {"field": field, "headerName": name, "minWidth": width, "flex": width, **more}


def number(field: str, name: str, width: int = 90, **more: Any) -> dict[str, Any]:
    """Sorted by `field`, read as `<field>_text`. Nothing (null) stands last."""
    shown = {"function": f"params.data ? params.data['{field}_text'] : ''"}
    told = {
        "type": "rightAligned",
        "valueFormatter": shown,
        "sortingOrder": ["desc", "asc"],
        **more,
    }
    return text(field, name, width, **told)


def grid(
    id: str,
    columns: Sequence[Mapping[str, Any]],
    label: str,
    *,
    key: str = "id",
    height: int | None = None,
    select: str = "",
    empty: str = "Nothing here",
    **options: Any,
) -> Component:
    """`key`: the field that names a row, a text; `select`: singleRow or multiRow; without a height it is as long as its rows."""
    chosen: dict[str, Any] = {}
    if select:
        chosen = {"mode": select, "enableClickSelection": select == "singleRow"}
        if select == "singleRow":
            chosen["checkboxes"] = False
    told = {
        "theme": {"function": _theme()},
        "animateRows": False,
        "suppressCellFocus": False,
        "suppressMovableColumns": True,
        "domLayout": "normal" if height else "autoHeight",
        "ensureDomOrder": True,
        **({"rowSelection": chosen} if select else {}),
        **options,
    }
    made = dag.AgGrid(
        id=id,
        columnDefs=list(columns),
        rowData=[],
        getRowId=f"params.data.{key}",
        defaultColDef={"sortable": True, "resizable": False, "suppressHeaderMenuButton": True},
        dashGridOptions=told,
        className="grid",
        style={"width": "100%", **({"height": f"{height}px"} if height else {"height": None})},
    )
    return d(made, role="region", aria_label=label)
