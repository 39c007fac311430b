from gpuruntime.api.rest.machines import NewVM
from gpuruntime.service.compat.machines import tenant_labels, vm_name


def test_tenants_become_labels_and_the_operation_id_names_the_vm() -> None:
    labels = tenant_labels(NewVM(tenant_id="t", tenant_name="", spec_name="g1.1"))

    assert labels == {"runtime.lokiwager.io/tenant-id": "t"}
    assert vm_name("a") == vm_name("a") != vm_name("b")
