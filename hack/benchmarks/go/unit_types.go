package main

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const group = "runtime.lokiwager.io"

var groupVersion = schema.GroupVersion{Group: group, Version: "v1alpha1"}

// GPUUnit has the fields that the bench uses, as one would write them with controller-gen.
type GPUUnit struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              UnitSpec   `json:"spec"`
	Status            UnitStatus `json:"status,omitempty"`
}

type GPUUnitList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GPUUnit `json:"items"`
}

type UnitSpec struct {
	SpecName         string                        `json:"specName"`
	Image            string                        `json:"image,omitempty"`
	CPU              *resource.Quantity            `json:"cpu,omitempty"`
	Memory           *resource.Quantity            `json:"memory,omitempty"`
	GPU              int64                         `json:"gpu,omitempty"`
	GPUType          string                        `json:"gpuType,omitempty"`
	Template         UnitTemplate                  `json:"template,omitempty"`
	Access           UnitAccess                    `json:"access,omitempty"`
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	Tolerations      []corev1.Toleration           `json:"tolerations,omitempty"`
	NodeSelector     map[string]string             `json:"nodeSelector,omitempty"`
	RuntimeClassName *string                       `json:"runtimeClassName,omitempty"`

	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	ShareProcessNamespace         *bool  `json:"shareProcessNamespace,omitempty"`
}

type UnitTemplate struct {
	Command        []string        `json:"command,omitempty"`
	Args           []string        `json:"args,omitempty"`
	Envs           []corev1.EnvVar `json:"envs,omitempty"`
	Ports          []UnitPort      `json:"ports,omitempty"`
	ReadinessProbe *corev1.Probe   `json:"readinessProbe,omitempty"`
}

type UnitPort struct {
	Name     string          `json:"name"`
	Port     int32           `json:"port"`
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

type UnitAccess struct {
	PrimaryPort string `json:"primaryPort,omitempty"`
	Scheme      string `json:"scheme,omitempty"`
}

type UnitStatus struct {
	Phase              string             `json:"phase,omitempty"`
	ReadyReplicas      *int32             `json:"readyReplicas,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	LastSyncTime       *metav1.Time       `json:"lastSyncTime,omitempty"`
	ServiceName        string             `json:"serviceName,omitempty"`
	AccessURL          string             `json:"accessURL,omitempty"`
	Stages             *UnitStages        `json:"stages,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type UnitStages struct {
	Scheduled *metav1.Time `json:"scheduled,omitempty"`
	Started   *metav1.Time `json:"started,omitempty"`
	Ready     *metav1.Time `json:"ready,omitempty"`
}

func addUnits(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &GPUUnit{}, &GPUUnitList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

func (u *GPUUnit) DeepCopyObject() runtime.Object {
	copied := *u
	u.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec = u.Spec.deepCopy()
	copied.Status = u.Status.deepCopy()
	return &copied
}

func (l *GPUUnitList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]GPUUnit, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*GPUUnit)
	}
	return &copied
}

func (s UnitSpec) deepCopy() UnitSpec {
	s.CPU, s.Memory = copyOf(s.CPU, (*resource.Quantity).DeepCopy), copyOf(s.Memory, (*resource.Quantity).DeepCopy)
	s.Template.Command = append([]string(nil), s.Template.Command...)
	s.Template.Args = append([]string(nil), s.Template.Args...)
	s.Template.Envs = copyAll(s.Template.Envs, (*corev1.EnvVar).DeepCopyInto)
	s.Template.Ports = append([]UnitPort(nil), s.Template.Ports...)
	s.Template.ReadinessProbe = s.Template.ReadinessProbe.DeepCopy()
	s.ImagePullSecrets = append([]corev1.LocalObjectReference(nil), s.ImagePullSecrets...)
	s.Tolerations = copyAll(s.Tolerations, (*corev1.Toleration).DeepCopyInto)
	s.NodeSelector = maps.Clone(s.NodeSelector)
	return s
}

func (s UnitStatus) deepCopy() UnitStatus {
	if s.ReadyReplicas != nil {
		replicas := *s.ReadyReplicas
		s.ReadyReplicas = &replicas
	}
	s.LastSyncTime = s.LastSyncTime.DeepCopy()
	if s.Stages != nil {
		s.Stages = &UnitStages{s.Stages.Scheduled.DeepCopy(), s.Stages.Started.DeepCopy(), s.Stages.Ready.DeepCopy()}
	}
	s.Conditions = copyAll(s.Conditions, (*metav1.Condition).DeepCopyInto)
	return s
}

func copyOf[T any](value *T, deepCopy func(*T) T) *T {
	if value == nil {
		return nil
	}
	copied := deepCopy(value)
	return &copied
}

func copyAll[T any](items []T, copyInto func(*T, *T)) []T {
	if items == nil {
		return nil
	}
	copied := make([]T, len(items))
	for i := range items {
		copyInto(&items[i], &copied[i])
	}
	return copied
}
