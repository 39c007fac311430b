package main

import (
	"context"
	"maps"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

const podsOfUnit, podsOnNode = "unit", "spec.nodeName"

// unitReconciler makes a Deployment and a Service of each unit and reports in its status how they are. Reads come from
// the cache; nothing is written that is there already.
type unitReconciler struct {
	client.Client
	recorder recorder.EventRecorder
	runs     atomic.Int64
	active   atomic.Int64
}

func (r *unitReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.active.Add(1)
	defer func() { r.runs.Add(1); r.active.Add(-1) }()
	var unit GPUUnit
	if err := r.Get(ctx, request.NamespacedName, &unit); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if unit.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	deployment, err := r.syncDeployment(ctx, &unit)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.syncService(ctx, &unit); err != nil {
		return ctrl.Result{}, err
	}
	return r.tell(ctx, &unit, deployment)
}

func (r *unitReconciler) syncDeployment(ctx context.Context, unit *GPUUnit) (*appsv1.Deployment, error) {
	var live appsv1.Deployment
	err := r.Get(ctx, types.NamespacedName{Namespace: unit.Namespace, Name: childName(unit)}, &live)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err != nil {
		desired, err := desiredDeployment(unit, nil)
		if err != nil {
			return nil, err
		}
		return desired, r.create(ctx, unit, desired)
	}
	desired, err := desiredDeployment(unit, &live)
	if err != nil {
		return nil, err
	}
	if isMarked(desired, &live) && equality.Semantic.DeepDerivative(desired.Spec, live.Spec) {
		return &live, nil
	}
	overlay(desired, &live)
	live.Spec = desired.Spec
	return &live, r.Update(ctx, &live)
}

func (r *unitReconciler) syncService(ctx context.Context, unit *GPUUnit) error {
	desired, err := desiredService(unit)
	if err != nil {
		return err
	}
	var live corev1.Service
	err = r.Get(ctx, client.ObjectKeyFromObject(desired), &live)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		return r.create(ctx, unit, desired)
	}
	if isMarked(desired, &live) && equality.Semantic.DeepDerivative(desired.Spec, live.Spec) {
		return nil
	}
	overlay(desired, &live)
	live.Spec.Selector, live.Spec.Ports, live.Spec.Type = desired.Spec.Selector, desired.Spec.Ports, desired.Spec.Type
	return r.Update(ctx, &live)
}

func (r *unitReconciler) create(ctx context.Context, unit *GPUUnit, child client.Object) error {
	if err := controllerutil.SetControllerReference(unit, child, r.Scheme()); err != nil {
		return err
	}
	return r.Create(ctx, child)
}

func (r *unitReconciler) tell(ctx context.Context, unit *GPUUnit, deployment *appsv1.Deployment) (ctrl.Result, error) {
	var pods corev1.PodList
	of := []client.ListOption{client.InNamespace(unit.Namespace), client.MatchingFields{podsOfUnit: unit.Name}}
	if err := r.List(ctx, &pods, of...); err != nil {
		return ctrl.Result{}, err
	}
	now := metav1.Now()
	status := statusOf(unit, deployment, pods.Items, now)
	if equality.Semantic.DeepEqual(status, unit.Status) {
		return ctrl.Result{}, nil
	}
	if later := canWait(unit.Status, status, now.Time); later > 0 {
		return ctrl.Result{RequeueAfter: later}, nil
	}
	before := unit.DeepCopyObject().(*GPUUnit)
	unit.Status = status
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Status().Patch(ctx, unit, patch); err != nil {
		return ctrl.Result{}, err
	}
	r.record(unit, before.Status, status)
	return ctrl.Result{}, nil
}

func (r *unitReconciler) record(unit *GPUUnit, before, after UnitStatus) {
	old := meta.FindStatusCondition(before.Conditions, readyCondition)
	ready := meta.FindStatusCondition(after.Conditions, readyCondition)
	if old == nil && ready.Reason == unitUnderWay {
		return
	}
	if old == nil || old.Status != ready.Status || old.Reason != ready.Reason {
		r.recorder.Eventf(unit, nil, corev1.EventTypeNormal, ready.Reason, "Reconcile", "%s", ready.Message)
	}
}

// isMarked tells whether the live object carries all labels and annotations of the desired one.
func isMarked(desired, live metav1.Object) bool {
	return isPart(desired.GetLabels(), live.GetLabels()) && isPart(desired.GetAnnotations(), live.GetAnnotations())
}

func isPart(part, whole map[string]string) bool {
	for name, value := range part {
		if whole[name] != value {
			return false
		}
	}
	return true
}

// overlay puts what is desired over the labels and annotations of others.
func overlay(desired, live metav1.Object) {
	live.SetLabels(merged(live.GetLabels(), desired.GetLabels()))
	live.SetAnnotations(merged(live.GetAnnotations(), desired.GetAnnotations()))
}

func merged(below, above map[string]string) map[string]string {
	entries := make(map[string]string, len(below)+len(above))
	maps.Copy(entries, below)
	maps.Copy(entries, above)
	return entries
}
