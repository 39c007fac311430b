from tests.web.machine_scenes import api_without_cluster


async def test_the_lifecycle_of_a_vm() -> None:
    async with api_without_cluster() as api:
        early = await api.call("POST", "/vms", json={"specName": "g1.1"})
        await api.call("POST", "/stocks", json={"specName": "g1.1", "number": 1})
        order = {"operationID": "a", "tenantID": "tenant-a", "tenantName": "team-a", "specName": "g1.1"}
        made = await api.call("POST", "/vms", json=order)
        again = await api.call("POST", "/vms", json=order)
        vm = made[1]["id"]
        found, listed = await api.call("GET", f"/vms/{vm}"), await api.call("GET", "/vms")
        deleted = await api.call("DELETE", f"/vms/{vm}")
        gone = await api.call("GET", f"/vms/{vm}"), await api.call("DELETE", f"/vms/{vm}")
        late = await api.call("POST", "/vms", json=order)

    assert (early[0], early[1]["code"]) == (409, "insufficient_capacity")
    assert (made[0], made[1]["tenantID"], made[1]["tenantName"]) == (201, "tenant-a", "team-a")
    assert again == found == (200, made[1])
    assert listed == (200, [made[1]])
    assert deleted == (200, {"vmID": vm, "status": "deleted"})
    assert [(status, error["code"]) for status, error in gone] == [(404, "vm_not_found")] * 2
    assert (late[0], late[1]["id"], late[1]["status"], late[1]["deleted"]) == (200, vm, "deleted", True)


async def test_a_tenant_must_be_a_valid_label_value() -> None:
    async with api_without_cluster() as api:
        status, error = await api.call("POST", "/vms", json={"tenantID": "tenant a", "specName": "g1.1"})
        nothing = await api.call("POST", "/vms", json={})

    assert (status, [detail["path"] for detail in error["details"]]) == (400, ["$.tenantID"])
    assert (nothing[0], nothing[1]["details"][0]["path"]) == (400, "$.specName")


async def test_a_vm_with_another_etag_is_not_deleted() -> None:
    async with api_without_cluster() as api:
        await api.call("POST", "/stocks", json={"specName": "g1.1", "number": 1})
        made = await api.call("POST", "/vms", json={"specName": "g1.1"})
        rejected = await api.call("DELETE", f"/vms/{made[1]['id']}", headers={"If-Match": '"7"'})
        found = await api.call("GET", f"/vms/{made[1]['id']}")

    assert (rejected[0], rejected[1]["code"], found[0]) == (412, "conflict", 200)


async def test_other_methods_are_rejected() -> None:
    async with api_without_cluster() as api:
        status, error = await api.call("PATCH", "/vms")

    assert (status, error["code"]) == (405, "method_not_allowed")
