"""The desired children of a Website, without a cluster."""

from datetime import UTC, datetime

from attrs import evolve

from gpuruntime.kube.builtin.apps import DeploymentStatus
from gpuruntime.meta import ObjectMeta, is_true
from website.children import deployment_of, failed_status, page_of, service_of, status_of
from website.kind import Website, WebsiteSpec

SITE = Website(ObjectMeta(name="shop", namespace="red", generation=3), WebsiteSpec("<h1>Shop</h1>", replicas=2))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_pods_and_service_find_each_other_and_mount_the_page() -> None:
    page, deployment, service = page_of(SITE), deployment_of(SITE), service_of(SITE)

    template = deployment.spec.template
    assert page.data == {"index.html": "<h1>Shop</h1>"}
    assert deployment.spec.replicas == 2
    assert service.spec.selector == deployment.spec.selector.match_labels == template.metadata.labels
    assert template.spec.volumes[0].config_map is not None
    assert template.spec.volumes[0].config_map.name == page.metadata.name


def test_a_new_page_replaces_the_pods_and_another_number_of_them_does_not() -> None:
    changed = evolve(SITE, spec=evolve(SITE.spec, html="<h1>New</h1>"))
    scaled = evolve(SITE, spec=evolve(SITE.spec, replicas=5))

    before, after, same = (deployment_of(site).spec.template for site in (SITE, changed, scaled))

    assert before != after
    assert before == same


def test_a_site_is_ready_when_enough_pods_serve_the_newest_page() -> None:
    deployment = deployment_of(SITE)
    starting = evolve(deployment, status=DeploymentStatus(updated_replicas=1, available_replicas=2))
    serving = evolve(deployment, status=DeploymentStatus(updated_replicas=2, available_replicas=2))

    early, late = (status_of(SITE, state, NOW) for state in (starting, serving))

    assert not is_true(early.conditions, "Ready")
    assert is_true(late.conditions, "Ready")
    assert late.conditions[0].message == "2 of 2 pods serve the page"


def test_a_site_that_cannot_be_served_says_why_and_keeps_its_figures() -> None:
    serving = status_of(SITE, evolve(deployment_of(SITE), status=DeploymentStatus(available_replicas=2)), NOW)

    failed = failed_status(evolve(SITE, status=serving), "NameTaken", "the name is taken", NOW)

    assert failed.ready_replicas == 2
    assert (failed.conditions[0].status, failed.conditions[0].reason) == ("False", "NameTaken")
