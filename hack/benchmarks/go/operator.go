package main

import (
	"context"
	"os"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	workers = 16
	look    = 50 * time.Millisecond
	quiet   = time.Second
)

// operation is what a run of the operator is measured by: from READY to DONE, and what it took to come to rest before.
type operation struct {
	measurement
	RestSeconds    float64 `json:"rest_seconds"`
	RestCPUSeconds float64 `json:"rest_cpu_seconds"`
	RestRuns       int64   `json:"rest_runs"`
	RSSEmptyKB     int     `json:"rss_empty_kb"`
}

// repose is the last reconcile before a second without any: what the process had taken by then, and when that was.
type repose struct {
	runs int64
	cpu  float64
	at   time.Time
}

func operate(ctx context.Context, config *rest.Config, units int64) (operation, error) {
	empty, _, err := resident()
	if err != nil {
		return operation{}, err
	}
	began, err := strconv.ParseFloat(os.Getenv("BEGAN"), 64)
	if err != nil {
		return operation{}, err
	}
	operator, reconciler, err := newOperator(ctx, config)
	if err != nil {
		return operation{}, err
	}
	failed := make(chan error, 1)
	go func() { failed <- operator.Start(ctx) }()
	finished := make(chan operation, 1)
	go func() {
		operator.GetCache().WaitForCacheSync(ctx)
		rest := reconciler.atRest(units)
		measured, err := measure(func() (int, error) {
			if err := ask("READY"); err != nil {
				return 0, err
			}
			err := ask("DONE")
			return int(reconciler.runs.Load() - rest.runs), err
		})
		if err != nil {
			failed <- err
			return
		}
		seconds := float64(rest.at.UnixNano())/1e9 - began
		finished <- operation{measured, seconds, rest.cpu, rest.runs, empty}
	}()
	select {
	case err := <-failed:
		return operation{}, err
	case result := <-finished:
		return result, nil
	}
}

// atRest returns when at least so many reconciles have been made, and none for a second.
func (r *unitReconciler) atRest(runs int64) repose {
	last := repose{0, cpu(), time.Now()}
	for ; ; time.Sleep(look) {
		made := r.runs.Load()
		if r.active.Load() > 0 || made != last.runs {
			last = repose{made, cpu(), time.Now()}
		} else if last.runs >= runs && time.Since(last.at) >= quiet {
			return last
		}
	}
}

func newOperator(ctx context.Context, config *rest.Config) (manager.Manager, *unitReconciler, error) {
	config.QPS = -1 // no limit on the client's side
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, nil, err
		}
	}
	addUnits(scheme)
	labelled, err := labels.NewRequirement(unitLabel, selection.Exists, nil)
	if err != nil {
		return nil, nil, err
	}
	children := cache.ByObject{Label: labels.NewSelector().Add(*labelled)}
	operator, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&appsv1.Deployment{}: children,
				&corev1.Service{}:    children,
				&corev1.Pod{}:        children,
			},
		},
	})
	if err != nil {
		return nil, nil, err
	}
	if err := indexPods(ctx, operator.GetFieldIndexer()); err != nil {
		return nil, nil, err
	}
	reconciler := &unitReconciler{Client: operator.GetClient(), recorder: operator.GetEventRecorder("gpu-runtime-operator")}
	own := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	return operator, reconciler, ctrl.NewControllerManagedBy(operator).
		For(&GPUUnit{}, own).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(unitOfPod), builder.WithPredicates(changedPod)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(reconciler.unitsOnNode), builder.WithPredicates(changedNode)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconciler)
}

func indexPods(ctx context.Context, indexer client.FieldIndexer) error {
	unit := func(pod client.Object) []string { return []string{pod.GetLabels()[unitLabel]} }
	if err := indexer.IndexField(ctx, &corev1.Pod{}, podsOfUnit, unit); err != nil {
		return err
	}
	node := func(pod client.Object) []string { return []string{pod.(*corev1.Pod).Spec.NodeName} }
	return indexer.IndexField(ctx, &corev1.Pod{}, podsOnNode, node)
}

func unitOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	name := types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetLabels()[unitLabel]}
	return []reconcile.Request{{NamespacedName: name}}
}

func (r *unitReconciler) unitsOnNode(ctx context.Context, node client.Object) (requests []reconcile.Request) {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.MatchingFields{podsOnNode: node.GetName()}); err != nil {
		return nil
	}
	for i := range pods.Items {
		requests = append(requests, unitOfPod(ctx, &pods.Items[i])...)
	}
	return requests
}

// changedPod passes over updates of pods that no status of a unit tells of.
var changedPod = predicate.Funcs{UpdateFunc: func(change event.UpdateEvent) bool {
	before, after := change.ObjectOld.(*corev1.Pod), change.ObjectNew.(*corev1.Pod)
	return before.Spec.NodeName != after.Spec.NodeName ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		before.Labels[unitLabel] != after.Labels[unitLabel] ||
		!equality.Semantic.DeepEqual(before.Status, after.Status)
}}

// changedNode passes over everything but a node that has become ready or unready: every unit is looked at when the
// process starts, without its node's asking for it.
var changedNode = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(change event.UpdateEvent) bool {
		return isReady(change.ObjectOld.(*corev1.Node)) != isReady(change.ObjectNew.(*corev1.Node))
	},
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
