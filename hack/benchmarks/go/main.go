// The contender that is written in Go: controller-runtime's cache and its controllers, measured from inside.
//
//	program sync --objects 10000
//	program hotloop --seconds 20
//	program churn --objects 500
//	program operator --objects 1000
//
// It reads KUBECONFIG and prints one JSON object. For churn it asks for the address READY when it knows all objects, and
// ends when it has seen all of them in the state FINAL. For operator it asks for READY when it has reconciled so many
// units and has nothing to do, and ends when DONE has answered.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

type measurement struct {
	Seconds     float64 `json:"seconds"`
	CPUSeconds  float64 `json:"cpu_seconds"`
	RSSBeforeKB int     `json:"rss_before_kb"`
	RSSAfterKB  int     `json:"rss_after_kb"`
	PeakRSSKB   int     `json:"peak_rss_kb"`
	Objects     int     `json:"objects"`
}

func main() {
	log.SetLogger(logr.Discard())
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("no scenario given: expected sync, hotloop, churn or operator")
	}
	flags := flag.NewFlagSet(arguments[0], flag.ContinueOnError)
	objects := flags.Int("objects", 0, "number of objects to wait for")
	seconds := flags.Float64("seconds", 0, "how long to keep the cache running")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	var result any
	switch arguments[0] {
	case "sync":
		result, err = measure(func() (int, error) { return syncAll(ctx, config, *objects) })
	case "hotloop":
		result, err = measure(func() (int, error) {
			return 0, keepRunning(ctx, config, time.Duration(*seconds*float64(time.Second)))
		})
	case "churn":
		result, err = churn(ctx, config, *objects)
	case "operator":
		result, err = operate(ctx, config, int64(*objects))
	default:
		return fmt.Errorf("scenario %q is unknown: expected sync, hotloop, churn or operator", arguments[0])
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

func syncAll(ctx context.Context, config *rest.Config, objects int) (int, error) {
	pods, err := start(ctx, config)
	if err != nil {
		return 0, err
	}
	if !pods.WaitForCacheSync(ctx) {
		return 0, fmt.Errorf("the cache did not sync")
	}
	var known corev1.PodList
	if err := pods.List(ctx, &known, client.UnsafeDisableDeepCopy); err != nil {
		return 0, err
	}
	if len(known.Items) != objects {
		return 0, fmt.Errorf("the cache holds %d pods, expected %d", len(known.Items), objects)
	}
	return len(known.Items), nil
}

func keepRunning(ctx context.Context, config *rest.Config, period time.Duration) error {
	if _, err := start(ctx, config); err != nil {
		return err
	}
	time.Sleep(period)
	return nil
}

// start gives a running cache that was asked for pods, as a controller that watches them asks for it.
func start(ctx context.Context, config *rest.Config) (cache.Cache, error) {
	pods, err := newCache(config)
	if err != nil {
		return nil, err
	}
	if _, err := pods.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, err
	}
	go keepFilling(ctx, pods)
	return pods, nil
}

func newCache(config *rest.Config) (cache.Cache, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return cache.New(config, cache.Options{Scheme: scheme})
}

func keepFilling(ctx context.Context, objects cache.Cache) {
	if err := objects.Start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// churn measures from "all objects known" to "all objects in their final state"; the number of objects that it reports
// is the number of reconciles.
func churn(ctx context.Context, config *rest.Config, objects int) (measurement, error) {
	worker, err := startWorker(ctx, config)
	if err != nil {
		return measurement{}, err
	}
	if _, err := worker.reconcileUntil(ctx, objects, func(*corev1.ConfigMap) bool { return true }); err != nil {
		return measurement{}, err
	}
	final := os.Getenv("FINAL")
	return measure(func() (int, error) {
		if err := ask("READY"); err != nil {
			return 0, err
		}
		return worker.reconcileUntil(ctx, objects, func(found *corev1.ConfigMap) bool { return found.Data["state"] == final })
	})
}

// worker is the one worker of a controller of ConfigMaps: the source, the queue and the cache are controller-runtime's.
// Its manager and what it does around each reconcile (logging, metrics) are left out, which makes Go a little cheaper.
type worker struct {
	maps  cache.Cache
	queue priorityqueue.PriorityQueue[reconcile.Request]
}

func startWorker(ctx context.Context, config *rest.Config) (*worker, error) {
	maps, err := newCache(config)
	if err != nil {
		return nil, err
	}
	go keepFilling(ctx, maps)
	queue := priorityqueue.New[reconcile.Request]("churn")
	changes := source.Kind(maps, &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{})
	if err := changes.Start(ctx, queue); err != nil {
		return nil, err
	}
	return &worker{maps, queue}, changes.WaitForSync(ctx)
}

// reconcileUntil reads each object that changed from the cache, until so many were found to be as they are expected; it
// gives the number of reconciles.
func (w *worker) reconcileUntil(ctx context.Context, objects int, expected func(*corev1.ConfigMap) bool) (int, error) {
	runs, found := 0, map[reconcile.Request]bool{}
	for len(found) < objects {
		request, shutdown := w.queue.Get()
		if shutdown {
			return runs, fmt.Errorf("the queue was shut down")
		}
		var current corev1.ConfigMap
		err := w.maps.Get(ctx, request.NamespacedName, &current)
		if client.IgnoreNotFound(err) != nil {
			return runs, err
		}
		runs++
		if err == nil && strings.HasPrefix(request.Name, "churn-") && expected(&current) {
			found[request] = true
		}
		w.queue.Forget(request)
		w.queue.Done(request)
	}
	return runs, nil
}

// ask returns when the bench has answered at the address that the environment holds under this name.
func ask(name string) error {
	answer, err := http.Get(os.Getenv(name))
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func measure(work func() (int, error)) (measurement, error) {
	before, _, err := resident()
	if err != nil {
		return measurement{}, err
	}
	began, spent := time.Now(), cpu()
	objects, err := work()
	if err != nil {
		return measurement{}, err
	}
	seconds, used := time.Since(began).Seconds(), cpu()-spent
	after, peak, err := resident()
	return measurement{seconds, used, before, after, peak, objects}, err
}

func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

var lines = regexp.MustCompile(`(?m)^(VmRSS|VmHWM):\s+(\d+) kB$`)

// resident gives the resident memory of this process now and at its peak, in kB.
func resident() (now int, peak int, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for _, line := range lines.FindAllStringSubmatch(string(status), -1) {
		value, err := strconv.Atoi(line[2])
		if err != nil {
			return 0, 0, err
		}
		if line[1] == "VmRSS" {
			now = value
		} else {
			peak = value
		}
	}
	return now, peak, nil
}
