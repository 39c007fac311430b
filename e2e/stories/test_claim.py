"""A user creates a unit, which claims stock."""

from e2e.installation import Installation
from e2e.names import SOURCE_STOCK_UID
from e2e.stories.orders import claim, order, seed


def test_a_unit_claims_one_stock_unit_however_often_the_request_is_sent(
    installation: Installation, suffix: str
) -> None:
    spec, name = f"claimed-{suffix}", f"claim-{suffix}"
    stock = {unit["metadata"]["uid"]: unit["metadata"]["name"] for unit in seed(installation, spec, 2)}

    made = claim(installation, order(name, spec), "")
    again = installation.api.post("/gpu-units", order(name, spec))
    other = installation.api.post("/gpu-units", order(name, spec, image="nginx:1.28"))

    unit = installation.cluster.ready(name)
    (left,) = installation.cluster.stock(spec, 1)
    source = unit["metadata"]["annotations"][SOURCE_STOCK_UID]
    assert (made.status, again.status, again.data["uid"]) == (201, 200, made.data["uid"])
    assert (other.status, other.error["code"]) == (409, "operation_conflict")
    assert stock[source] == made.data["sourceStockName"]
    assert left["metadata"]["uid"] in stock.keys() - {source}
    assert unit["spec"]["memory"] == "16Mi"


def test_without_stock_a_claim_is_refused_and_its_operation_id_stays_free(
    installation: Installation, suffix: str
) -> None:
    spec, name = f"late-{suffix}", f"late-{suffix}"

    early = installation.api.post("/gpu-units", order(name, spec))
    seed(installation, spec, 1)
    later = claim(installation, order(name, spec), "")

    assert (early.status, early.error["code"]) == (409, "insufficient_capacity")
    assert (later.status, later.data["name"]) == (201, name)
