"""Bodies of declared types."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Literal, Optional, Union

import pytest

from delay_queue import BodyError
from delay_queue.bodies import decoder


@dataclasses.dataclass
class Line:
    article: str
    count: int = 1


@dataclasses.dataclass
class Order:
    order: str
    lines: List[Line]
    note: Optional[str] = None
    kind: Literal["web", "shop"] = "web"
    prices: Dict[str, float] = dataclasses.field(default_factory=dict)


def test_dataclasses_are_filled_with_their_parts() -> None:
    body = {"order": "o", "lines": [{"article": "a"}], "prices": {"a": 2}, "unknown": 1}
    assert decoder(Order)(body) == Order("o", [Line("a")], prices={"a": 2.0})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, "body must be an object; got null"),
        ({"lines": []}, "body.order is missing"),
        ({"order": 5, "lines": []}, "body.order must be text; got an integer '5'"),
        ({"order": "o", "lines": {}}, "body.lines must be an array"),
        ({"order": "o", "lines": [{"article": "a", "count": True}]}, r"body.lines\[0\].count must be an integer"),
        ({"order": "o", "lines": [], "note": 1}, "body.note must be text.*or body.note must be null"),
        ({"order": "o", "lines": [], "kind": "x"}, "body.kind must be 'web' or 'shop'"),
        ({"order": "o", "lines": [], "prices": {"a": "2"}}, "body.prices.a must be a number"),
    ],
)
def test_the_error_names_the_part_that_does_not_fit(body: Any, text: str) -> None:
    with pytest.raises(BodyError, match=text):
        decoder(Order)(body)


def test_other_types_and_functions_check_in_their_own_way() -> None:
    class Model:
        @classmethod
        def model_validate(cls, value: Any) -> str:
            return f"validated {value}"

    assert decoder(Model)(1) == "validated 1"
    assert decoder(Union[int, str])("x") == "x"
    assert decoder(lambda value: value["a"])({"a": 1}) == 1
    assert decoder(Any)([1]) == [1]
    with pytest.raises(BodyError):
        decoder(int)(1.5)
    with pytest.raises(TypeError):
        decoder(5)
