"""A user updates the image of a unit."""

from e2e.installation import Installation
from e2e.stories.orders import SMALL, order


def test_a_new_image_replaces_the_pod_and_nothing_else(installation: Installation, suffix: str) -> None:
    spec, name = f"updated-{suffix}", f"update-{suffix}"
    path = f"/gpu-units/{name}"
    installation.api.post("/gpu-units?wait=Ready&timeout=90", order(name, spec, coldStart=True, **SMALL))
    (before,) = installation.cluster.pods(name)
    seen = installation.api.get(path)

    changed = installation.api.put(f"{path}?wait=Ready&timeout=90", {"image": "nginx:1.28"})
    outdated = installation.api.put(path, {"image": "nginx:1.29"}, If_Match=seen.headers["ETag"])
    same = installation.api.put(path, {"image": "nginx:1.28"})

    (after,) = installation.cluster.pods(name)
    assert (changed.status, changed.data["phase"], changed.data["generation"]) == (200, "Ready", 2)
    assert (outdated.status, same.status, same.data["generation"]) == (412, 200, 2)
    assert (before.spec.containers[0].image, after.spec.containers[0].image) == ("nginx:1.27", "nginx:1.28")
    assert before.metadata.uid != after.metadata.uid
    assert changed.data["template"] == seen.data["template"]
    assert (changed.data["uid"], changed.data["accessURL"]) == (seen.data["uid"], seen.data["accessURL"])
