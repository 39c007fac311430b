from gpuruntime.api.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE, Namespaces


def test_a_unit_is_stock_in_a_stock_namespace_and_active_in_any_other() -> None:
    namespaces = Namespaces()

    assert namespaces.is_stock(STOCK_NAMESPACE)
    assert not namespaces.is_stock(INSTANCE_NAMESPACE)
    assert not namespaces.is_stock("team-a")
    assert (namespaces.role_of(STOCK_NAMESPACE), namespaces.role_of("team-a")) == ("stock", "active")


def test_stock_namespaces_can_be_chosen() -> None:
    namespaces = Namespaces(stock=("stock-a", "stock-b"))

    assert namespaces.is_stock("stock-b")
    assert not namespaces.is_stock(STOCK_NAMESPACE)


def test_the_first_namespace_is_the_default_and_lists_are_sorted_without_duplicates() -> None:
    namespaces = Namespaces(("b", "a"), ("d", "c"), "a")

    assert (namespaces.default_instance, namespaces.default_stock) == ("b", "d")
    assert (namespaces.units, namespaces.all) == (("a", "b", "c", "d"), ("a", "b", "c", "d"))
