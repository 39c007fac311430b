package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	readyCondition = "Ready"
	unitReady      = "UnitReady"
	unitUnderWay   = "UnitProgressing"
	together       = 3 * time.Second
)

// statusOf gives the status of a unit whose start meets no trouble: units of the bench meet none.
func statusOf(unit *GPUUnit, deployment *appsv1.Deployment, pods []corev1.Pod, now metav1.Time) UnitStatus {
	before := unit.Status
	after := before.deepCopy()
	condition := metav1.Condition{Type: readyCondition, ObservedGeneration: unit.Generation}
	pod, progress, complete := rolloutOf(deployment, pods)
	if complete {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, unitReady, "GPU unit runtime is ready."
		after.Phase = "Ready"
	} else {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, unitUnderWay, progress
		after.Phase = "Progressing"
	}
	after.ReadyReplicas = pointer(deployment.Status.ReadyReplicas)
	after.ObservedGeneration = unit.Generation
	after.ServiceName, after.AccessURL = childName(unit), accessURL(unit)
	after.Stages = stagesOf(pod)
	meta.SetStatusCondition(&after.Conditions, condition)
	if equality.Semantic.DeepEqual(before, after) {
		return before
	}
	after.LastSyncTime = &now
	return after
}

// canWait tells for how long a status need not be written: steps that are a moment apart are told together.
func canWait(before, after UnitStatus, now time.Time) time.Duration {
	ready := meta.FindStatusCondition(after.Conditions, readyCondition)
	if ready.Reason != unitUnderWay || before.LastSyncTime == nil {
		return 0
	}
	if !equality.Semantic.DeepEqual(withoutSteps(before), withoutSteps(after)) {
		return 0
	}
	return max(together-now.Sub(before.LastSyncTime.Time), 0)
}

func withoutSteps(status UnitStatus) UnitStatus {
	status = status.deepCopy()
	status.Stages, status.ReadyReplicas, status.LastSyncTime = nil, nil, nil
	for i := range status.Conditions {
		status.Conditions[i].Message = ""
	}
	return status
}

func rolloutOf(deployment *appsv1.Deployment, pods []corev1.Pod) (pod *corev1.Pod, progress string, complete bool) {
	status := deployment.Status
	if status.ObservedGeneration < deployment.Generation {
		return nil, "Waiting for the Deployment to be rolled out.", false
	}
	if status.UpdatedReplicas > 0 {
		pod = newest(deployment, pods)
	}
	if status.Replicas == status.UpdatedReplicas && status.UpdatedReplicas > 0 && status.AvailableReplicas > 0 {
		return pod, "", true
	}
	if pod == nil {
		return nil, "Waiting for the pod to be made.", false
	}
	return pod, progressOf(pod), false
}

func newest(deployment *appsv1.Deployment, pods []corev1.Pod) (found *corev1.Pod) {
	for i := range pods {
		owner := metav1.GetControllerOf(&pods[i])
		if owner == nil || !strings.HasPrefix(owner.Name, deployment.Name+"-") || pods[i].DeletionTimestamp != nil {
			continue
		}
		if found == nil || found.CreationTimestamp.Before(&pods[i].CreationTimestamp) {
			found = &pods[i]
		}
	}
	return found
}

func progressOf(pod *corev1.Pod) string {
	switch {
	case pod.Spec.NodeName == "":
		return fmt.Sprintf("Waiting for pod %s to be scheduled.", pod.Name)
	case startOf(pod) == nil:
		return fmt.Sprintf("Pod %s is on node %s; waiting for its containers to start.", pod.Name, pod.Spec.NodeName)
	default:
		return fmt.Sprintf("Pod %s runs on node %s; waiting for it to be ready.", pod.Name, pod.Spec.NodeName)
	}
}

func stagesOf(pod *corev1.Pod) *UnitStages {
	if pod == nil {
		return nil
	}
	stages := UnitStages{sinceOf(pod, corev1.PodScheduled), startOf(pod), sinceOf(pod, corev1.PodReady)}
	if stages == (UnitStages{}) {
		return nil
	}
	return &stages
}

func sinceOf(pod *corev1.Pod, kind corev1.PodConditionType) *metav1.Time {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == kind && condition.Status == corev1.ConditionTrue {
			return &condition.LastTransitionTime
		}
	}
	return nil
}

func startOf(pod *corev1.Pod) (last *metav1.Time) {
	for i := range pod.Status.ContainerStatuses {
		running := pod.Status.ContainerStatuses[i].State.Running
		if running == nil {
			return nil
		}
		if last == nil || last.Before(&running.StartedAt) {
			last = &running.StartedAt
		}
	}
	return last
}

func namesOf(entries map[string]string) []string { return slices.Sorted(maps.Keys(entries)) }
