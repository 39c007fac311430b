// Command gpus is a driver for dynamic resource allocation whose GPUs are not there: it publishes them in a ResourceSlice
// under the names and attributes of the real driver, and a container that gets some sees their UUIDs in NVIDIA_VISIBLE_DEVICES.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	driverName = "gpu.nvidia.com"
	cdiKind    = "testing.gpuruntime.local/gpu"
	cdiDir     = "/run/cdi"
)

type driver struct{}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how the API server is reached")
	node := flag.String("node", "", "the name of this node")
	count := flag.Int("gpus", 1, "the number of GPUs")
	product := flag.String("product", "RTX4090", "their product name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *kubeconfig, *node, *count, *product); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, kubeconfig, node string, count int, product string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := untilRegistered(ctx, client, node); err != nil {
		return err
	}
	data := filepath.Join(kubeletplugin.KubeletPluginsDir, driverName)
	for _, directory := range []string{cdiDir, data, kubeletplugin.KubeletRegistryDir} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	helper, err := kubeletplugin.Start(ctx, driver{},
		kubeletplugin.KubeClient(client),
		kubeletplugin.NodeName(node),
		kubeletplugin.DriverName(driverName),
		kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		return err
	}
	defer helper.Stop()
	slice := resourceslice.Slice{Devices: devices(node, count, product)}
	pools := map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{slice}}}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: pools}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// untilRegistered waits for the Node, which owns the ResourceSlice. The kubelet creates it while we start.
func untilRegistered(ctx context.Context, client kubernetes.Interface, node string) error {
	for {
		if _, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func devices(node string, count int, product string) []resourceapi.Device {
	kind, found := "gpu", []resourceapi.Device{}
	for number := range count {
		index, uuid := int64(number), uuidOf(node, fmt.Sprintf("gpu-%d", number))
		found = append(found, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", number),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"type":        {StringValue: &kind},
				"productName": {StringValue: &product},
				"uuid":        {StringValue: &uuid},
				"index":       {IntValue: &index},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
				"memory": {Value: resource.MustParse("24Gi")},
			},
		})
	}
	return found
}

func uuidOf(node, device string) string {
	return fmt.Sprintf("GPU-%s-%s", node, device)
}

// PrepareResourceClaims writes one CDI device for each claim, which has all GPUs of the claim.
func (driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		results[claim.UID] = prepare(claim)
	}
	return results, nil
}

func prepare(claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	prepared, uuids := []kubeletplugin.Device{}, []string{}
	for _, allocated := range claim.Status.Allocation.Devices.Results {
		if allocated.Driver != driverName {
			continue
		}
		uuids = append(uuids, uuidOf(allocated.Pool, allocated.Device))
		prepared = append(prepared, kubeletplugin.Device{
			Requests:     []string{allocated.Request},
			PoolName:     allocated.Pool,
			DeviceName:   allocated.Device,
			CDIDeviceIDs: []string{fmt.Sprintf("%s=%s", cdiKind, claim.UID)},
		})
	}
	edits := map[string]any{"env": []string{"NVIDIA_VISIBLE_DEVICES=" + strings.Join(uuids, ",")}}
	spec := map[string]any{
		"cdiVersion": "0.6.0",
		"kind":       cdiKind,
		"devices":    []any{map[string]any{"name": string(claim.UID), "containerEdits": edits}},
	}
	content, err := json.Marshal(spec)
	if err == nil {
		draft := filepath.Join(cdiDir, string(claim.UID)+".draft")
		if err = os.WriteFile(draft, content, 0o644); err == nil {
			err = os.Rename(draft, specFile(claim.UID))
		}
	}
	return kubeletplugin.PrepareResult{Devices: prepared, Err: err}
}

// UnprepareResourceClaims removes what was written. A file that is gone already is no error.
func (driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(specFile(claim.UID))
		if os.IsNotExist(err) {
			err = nil
		}
		results[claim.UID] = err
	}
	return results, nil
}

func (driver) HandleError(_ context.Context, err error, message string) {
	log.Printf("%s: %v", message, err)
}

func specFile(claim types.UID) string {
	return filepath.Join(cdiDir, "claim-"+string(claim)+".json")
}
