from gpuruntime.api.roles import INSTANCE_NAMESPACE, STOCK_NAMESPACE, Roles


def test_a_unit_is_stock_in_a_stock_namespace_and_active_anywhere_else() -> None:
    roles = Roles()

    assert roles.is_stock(STOCK_NAMESPACE)
    assert not roles.is_stock(INSTANCE_NAMESPACE)
    assert not roles.is_stock("team-a")
    assert (roles.role_of(STOCK_NAMESPACE), roles.role_of("team-a")) == ("stock", "active")


def test_stock_namespaces_can_be_chosen() -> None:
    roles = Roles(["stock-a", "stock-b"])

    assert roles.is_stock("stock-b")
    assert not roles.is_stock(STOCK_NAMESPACE)
    assert roles == Roles({"stock-b", "stock-a"})
