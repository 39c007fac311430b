package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	unitLabel        = group + "/unit"
	renderedFor      = group + "/rendered-for"
	renderedTemplate = group + "/rendered-template"
	renderedDigest   = group + "/rendered-digest"
	desiredHash      = group + "/desired-hash"
	desiredKeys      = group + "/desired-keys"
	ownerName        = group + "/owner"
	ownerUID         = group + "/owner-uid"
	gpuResource      = "nvidia.com/gpu"
	sharedMemory     = "runtime-shm"
)

var dropped = []corev1.Capability{
	"AUDIT_CONTROL", "AUDIT_READ", "BLOCK_SUSPEND", "DAC_READ_SEARCH", "IPC_LOCK", "IPC_OWNER", "KILL",
	"MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "SETPCAP", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO",
	"SYS_RESOURCE", "SYS_TIME", "WAKE_ALARM",
}

func childName(unit *GPUUnit) string { return "unit-" + unit.Name }

func selectorOf(unit *GPUUnit) map[string]string { return map[string]string{unitLabel: unit.Name} }

func labelsOf(unit *GPUUnit) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":       "gpu-runtime-unit",
		"app.kubernetes.io/managed-by": "gpu-runtime-operator",
		unitLabel:                      unit.Name,
	}
}

// desiredDeployment keeps the pod template that the live Deployment remembers if it was rendered for the same spec.
func desiredDeployment(unit *GPUUnit, live *appsv1.Deployment) (*appsv1.Deployment, error) {
	inputs, err := digestOf(unit.Spec)
	if err != nil {
		return nil, err
	}
	template, text, err := remembered(live, inputs)
	if err != nil {
		template = renderedPod(unit)
		rendered, err := json.Marshal(template)
		if err != nil {
			return nil, err
		}
		text = string(rendered)
	}
	desired := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:      childName(unit),
			Namespace: unit.Namespace,
			Labels:    labelsOf(unit),
			Annotations: map[string]string{
				renderedFor:      inputs,
				renderedTemplate: text,
				renderedDigest:   digest([]byte(inputs + "\n" + text)),
			},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas:                pointer(int32(1)),
			Selector:                &metav1.LabelSelector{MatchLabels: selectorOf(unit)},
			Strategy:                appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template:                *template,
			ProgressDeadlineSeconds: pointer(int32(600)),
			RevisionHistoryLimit:    pointer(int32(0)),
		},
	}
	return desired, mark(desired, desired.Spec, unit)
}

func remembered(live *appsv1.Deployment, inputs string) (*corev1.PodTemplateSpec, string, error) {
	if live == nil {
		return nil, "", fmt.Errorf("there is no Deployment")
	}
	text := live.Annotations[renderedTemplate]
	if live.Annotations[renderedFor] != inputs || live.Annotations[renderedDigest] != digest([]byte(inputs+"\n"+text)) {
		return nil, "", fmt.Errorf("it was rendered for something else")
	}
	var template corev1.PodTemplateSpec
	return &template, text, json.Unmarshal([]byte(text), &template)
}

func renderedPod(unit *GPUUnit) *corev1.PodTemplateSpec {
	spec := unit.Spec
	selector := map[string]string{"nvidia.com/gpu.product": spec.GPUType}
	for name, value := range spec.NodeSelector {
		selector[name] = value
	}
	taint := corev1.Toleration{Key: gpuResource, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	half := resource.NewQuantity(spec.Memory.Value()/2, spec.Memory.Format)
	shm := corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: half}
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(unit)},
		Spec: corev1.PodSpec{
			Containers:                   []corev1.Container{container(unit)},
			Volumes:                      []corev1.Volume{{Name: sharedMemory, VolumeSource: corev1.VolumeSource{EmptyDir: &shm}}},
			NodeSelector:                 selector,
			Tolerations:                  append(append([]corev1.Toleration(nil), spec.Tolerations...), taint),
			PriorityClassName:            "gpuruntime-active",
			RuntimeClassName:             spec.RuntimeClassName,
			AutomountServiceAccountToken: pointer(false),
			ImagePullSecrets:             spec.ImagePullSecrets,
			EnableServiceLinks:           pointer(false),

			TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
			ShareProcessNamespace:         spec.ShareProcessNamespace,
		},
	}
}

func container(unit *GPUUnit) corev1.Container {
	spec := unit.Spec
	env := []corev1.EnvVar{
		{Name: "SPEC_NAME", Value: spec.SpecName},
		{Name: "UNIT_NAME", Value: unit.Name},
		{Name: "GPU_COUNT", Value: strconv.FormatInt(spec.GPU, 10)},
		{Name: "MEMORY_LIMIT", Value: spec.Memory.String()},
	}
	var ports []corev1.ContainerPort
	for _, port := range spec.Template.Ports {
		ports = append(ports, corev1.ContainerPort{Name: port.Name, ContainerPort: port.Port, Protocol: port.Protocol})
	}
	amounts := corev1.ResourceList{
		corev1.ResourceCPU:    *spec.CPU,
		corev1.ResourceMemory: *spec.Memory,
		gpuResource:           *resource.NewQuantity(spec.GPU, resource.DecimalSI),
	}
	return corev1.Container{
		Name:                     "runtime-worker",
		Image:                    spec.Image,
		ImagePullPolicy:          corev1.PullIfNotPresent,
		Command:                  spec.Template.Command,
		Args:                     spec.Template.Args,
		Env:                      append(env, spec.Template.Envs...),
		Ports:                    ports,
		Resources:                corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
		VolumeMounts:             []corev1.VolumeMount{{Name: sharedMemory, MountPath: "/dev/shm"}},
		ReadinessProbe:           completed(spec.Template.ReadinessProbe),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: pointer(false),
			Capabilities:             &corev1.Capabilities{Drop: dropped},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}

// completed says what the server would fill in: to DeepDerivative a zero is a number like any other.
func completed(probe *corev1.Probe) *corev1.Probe {
	if probe == nil {
		return nil
	}
	probe = probe.DeepCopy()
	probe.TimeoutSeconds = max(probe.TimeoutSeconds, 1)
	probe.SuccessThreshold = max(probe.SuccessThreshold, 1)
	if probe.PeriodSeconds == 0 {
		probe.PeriodSeconds = 10
	}
	if probe.FailureThreshold == 0 {
		probe.FailureThreshold = 3
	}
	return probe
}

func desiredService(unit *GPUUnit) (*corev1.Service, error) {
	var ports []corev1.ServicePort
	for _, port := range unit.Spec.Template.Ports {
		target := intstr.FromInt32(port.Port)
		ports = append(ports, corev1.ServicePort{Name: port.Name, Port: port.Port, Protocol: port.Protocol, TargetPort: target})
	}
	desired := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: childName(unit), Namespace: unit.Namespace, Labels: labelsOf(unit)},
		Spec: corev1.ServiceSpec{
			Type:           corev1.ServiceTypeClusterIP,
			IPFamilyPolicy: pointer(corev1.IPFamilyPolicySingleStack),
			Selector:       selectorOf(unit),
			Ports:          ports,
		},
	}
	return desired, mark(desired, desired.Spec, unit)
}

func accessURL(unit *GPUUnit) string {
	for _, port := range unit.Spec.Template.Ports {
		if port.Name == unit.Spec.Access.PrimaryPort {
			scheme, name := unit.Spec.Access.Scheme, childName(unit)
			return fmt.Sprintf("%s://%s.%s.svc.cluster.local:%d", scheme, name, unit.Namespace, port.Port)
		}
	}
	return ""
}

// mark notes on an object what is desired of it, so that a change of that is seen without a look at every field, and
// which unit it was made for.
func mark(obj metav1.Object, spec any, unit *GPUUnit) error {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	hash, err := digestOf([]any{obj.GetLabels(), annotations, spec})
	if err != nil {
		return err
	}
	keys, err := json.Marshal(map[string]any{"metadata.labels": namesOf(obj.GetLabels()), "metadata.annotations": namesOf(annotations)})
	if err != nil {
		return err
	}
	annotations[desiredHash], annotations[desiredKeys] = hash, string(keys)
	annotations[ownerName], annotations[ownerUID] = "gpuunits."+group+"/"+unit.Name, string(unit.UID)
	obj.SetAnnotations(annotations)
	return nil
}

func digestOf(value any) (string, error) {
	text, err := json.Marshal(value)
	return digest(text), err
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

func pointer[T any](value T) *T { return &value }
