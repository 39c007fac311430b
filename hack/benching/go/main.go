// The contender that is written in Go: a controller-runtime cache of pods, measured from inside.
//
//	program sync --objects 10000
//	program hotloop --seconds 20
//
// It reads KUBECONFIG and prints one JSON object.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
		return fmt.Errorf("no scenario given: expected sync or hotloop")
	}
	flags := flag.NewFlagSet(arguments[0], flag.ContinueOnError)
	objects := flags.Int("objects", 0, "number of pods to wait for")
	seconds := flags.Float64("seconds", 0, "how long to keep the cache running")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	var result measurement
	switch arguments[0] {
	case "sync":
		result, err = measure(func() (int, error) { return syncAll(ctx, config, *objects) })
	case "hotloop":
		result, err = measure(func() (int, error) {
			return 0, keepRunning(ctx, config, time.Duration(*seconds*float64(time.Second)))
		})
	default:
		return fmt.Errorf("scenario %q is unknown: expected sync or hotloop", arguments[0])
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
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	pods, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	if _, err := pods.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, err
	}
	go func() {
		if err := pods.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	}()
	return pods, nil
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
