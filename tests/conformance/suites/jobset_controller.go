// Stands in for the file of JobSet's controller tests that starts an API server: theirs is `astrago up` (KUBECONFIG).
// With CONTROLLER=theirs it starts JobSet's controller; else the one that is to be tested runs already.
package controllertest

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
)

var (
	k8sClient client.Client
	ctx       context.Context
	cancel    context.CancelFunc
)

func TestAPIs(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "JobSet controller")
}

var _ = BeforeSuite(func() {
	ctx, cancel = context.WithCancel(context.Background())
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter)))
	cfg := ctrl.GetConfigOrDie()
	cfg.QPS, cfg.Burst = -1, -1
	Expect(jobset.AddToScheme(scheme.Scheme)).To(Succeed())
	var err error
	k8sClient, err = client.New(cfg, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	go standIn(k8sClient)
	if os.Getenv("CONTROLLER") != "theirs" {
		return
	}
	manager, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}})
	Expect(err).NotTo(HaveOccurred())
	Expect(controllers.SetupJobSetIndexes(ctx, manager.GetFieldIndexer())).To(Succeed())
	Expect(controllers.SetupPodIndexes(ctx, manager.GetFieldIndexer())).To(Succeed())
	recorder := manager.GetEventRecorder("jobset")
	Expect(controllers.NewJobSetReconciler(manager.GetClient(), manager.GetScheme(), recorder).SetupWithManager(manager)).To(Succeed())
	Expect(controllers.NewPodReconciler(manager.GetClient(), manager.GetScheme(), recorder).SetupWithManager(manager)).To(Succeed())
	go func() {
		defer GinkgoRecover()
		Expect(manager.Start(ctx)).To(Succeed())
	}()
})

var _ = AfterSuite(func() { cancel() })

const held = "conformance/pod"

// standIn does what the tests expect of a cluster without a Job controller and without a garbage collector. Something
// that stands for its pods keeps each Job from going before the tests themselves let it go; and a Job that is held says
// so, as any Job controller has it.
func standIn(api client.Client) {
	for ctx.Err() == nil {
		var jobs batchv1.JobList
		var pods corev1.ConfigMapList
		var namespaces corev1.NamespaceList
		if api.List(ctx, &jobs) == nil && api.List(ctx, &pods, client.HasLabels{held}) == nil && api.List(ctx, &namespaces) == nil {
			going := map[string]bool{}
			for _, namespace := range namespaces.Items {
				going[namespace.Name] = namespace.DeletionTimestamp != nil
			}
			known := map[types.UID]bool{}
			for _, pod := range pods.Items {
				known[pod.OwnerReferences[0].UID] = true
			}
			there := map[types.UID]bool{}
			for _, job := range jobs.Items {
				there[job.UID] = true
				if job.DeletionTimestamp == nil && !known[job.UID] {
					_ = api.Create(ctx, podOf(&job))
				}
				sayHeld(api, &job)
			}
			for _, pod := range pods.Items {
				if going[pod.Namespace] || !there[pod.OwnerReferences[0].UID] {
					pod.Finalizers = nil
					_ = api.Update(ctx, &pod)
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func podOf(job *batchv1.Job) *corev1.ConfigMap {
	yes := true
	owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, BlockOwnerDeletion: &yes}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "pod-of-" + string(job.UID), Namespace: job.Namespace, Labels: map[string]string{held: ""},
		Finalizers: []string{held}, OwnerReferences: []metav1.OwnerReference{owner},
	}}
}

func sayHeld(api client.Client, job *batchv1.Job) {
	want := corev1.ConditionFalse
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		want = corev1.ConditionTrue
	}
	index := slices.IndexFunc(job.Status.Conditions, func(known batchv1.JobCondition) bool { return known.Type == batchv1.JobSuspended })
	switch {
	case index < 0 && want == corev1.ConditionTrue:
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobSuspended, Status: want})
	case index >= 0 && job.Status.Conditions[index].Status != want:
		job.Status.Conditions[index].Status = want
	default:
		return
	}
	_ = api.Status().Update(ctx, job)
}
