from tests.web.machine_scenes import api_without_cluster

PAIR = {"number": 2, "specName": "g1.1", "cpu": "4", "memory": "16Gi", "gpuType": "RTX4090", "gpuNum": 1}


async def test_stocks_are_created_once_listed_and_deleted() -> None:
    async with api_without_cluster() as api:
        created = await api.call("POST", "/stocks", json={"operationID": "a", **PAIR})
        again = await api.call("POST", "/stocks", json=PAIR, headers={"Idempotency-Key": "a"})
        other = await api.call("POST", "/stocks", json={"operationID": "a", **PAIR, "number": 3})
        listed = await api.call("GET", "/stocks")
        deleted = await api.call("DELETE", "/stocks", json={"number": 1, "specName": "g1.1"})
        too_many = await api.call("DELETE", "/stocks", json={"number": 2, "specName": "g1.1"})

    assert (created[0], again[0], other[0]) == (201, 200, 409)
    assert created[1] == again[1] == listed[1]
    assert {name: created[1][0][name] for name in PAIR if name != "number"} == {
        name: value for name, value in PAIR.items() if name != "number"
    }
    assert [stock["status"] for stock in created[1]] == ["available", "available"]
    assert deleted == (200, {"specName": "g1.1", "number": 1, "status": "deleted"})
    assert (too_many[0], too_many[1]["code"]) == (409, "insufficient_capacity")


async def test_a_deletion_is_carried_out_once_wherever_its_operation_id_is() -> None:
    one = {"number": 1, "specName": "g1.1"}
    async with api_without_cluster() as api:
        await api.call("POST", "/stocks", json=PAIR)
        answers = [
            await api.call("DELETE", "/stocks?operationID=b", json=one),
            await api.call("DELETE", "/stocks", json={"operationID": "b", **one}),
            await api.call("DELETE", "/stocks", json=one, headers={"Idempotency-Key": "b"}),
        ]
        differing = await api.call("DELETE", "/stocks?operationID=c", json={"operationID": "b", **one})
        listed = await api.call("GET", "/stocks")

    assert answers == [(200, {"specName": "g1.1", "number": 1, "status": "deleted"})] * 3
    assert (differing[0], differing[1]["details"][0]["path"]) == (400, "$.operationID")
    assert len(listed[1]) == 1


async def test_a_long_list_comes_in_pages() -> None:
    async with api_without_cluster() as api:
        await api.call("POST", "/stocks", json={"specName": "g1.1", "number": 5})
        first = await api.page("/stocks?limit=3")
        rest = await api.page(f"/stocks?limit=3&cursor={first['next']}")
        wrong = await api.call("GET", "/stocks?cursor=x")

    assert [len(page["data"]) for page in (first, rest)] == [3, 2]
    assert len({stock["id"] for page in (first, rest) for stock in page["data"]}) == 5
    assert "next" not in rest
    assert (wrong[0], wrong[1]["details"][0]["path"]) == (400, "?cursor")


async def test_all_faults_are_reported_at_once_and_nothing_is_created() -> None:
    async with api_without_cluster() as api:
        body = {"number": 0, "cpu": "much", "gpuNum": -1, "color": "red"}
        status, error = await api.call("POST", "/stocks", json=body)
        listed = await api.call("GET", "/stocks")

    assert (status, error["code"]) == (400, "invalid_request")
    assert {detail["path"] for detail in error["details"]} == {
        "$.color",
        "$.cpu",
        "$.gpuNum",
        "$.number",
        "$.specName",
    }
    assert listed == (200, [])
