// Package framework stands in for the one of Trainer's tests that starts an API server, their webhooks and their
// controllers: here it is `astrago up` (KUBECONFIG). With CONTROLLER=theirs Trainer's controllers are started; else the
// one that is to be tested runs already.
package framework

import (
	"context"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlpkg "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	plugins "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/controller"
	runtimecore "github.com/kubeflow/trainer/v2/pkg/runtime/core"
)

// Framework of the tests.
type Framework struct {
	cancel context.CancelFunc
}

// Init finds the server.
func (f *Framework) Init() *rest.Config {
	ctrl.SetLogger(zap.New(zap.WriteTo(ginkgo.GinkgoWriter)))
	cfg := ctrl.GetConfigOrDie()
	cfg.QPS, cfg.Burst = -1, -1
	kinds := []*apiextensions.CustomResourceDefinition{
		anything("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroup", apiextensions.NamespaceScoped),
		anything("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroup", apiextensions.NamespaceScoped),
		// Trainer watches them, and they are not served.
		anything("node.k8s.io", "v1", "RuntimeClass", "runtimeclass", apiextensions.ClusterScoped),
	}
	_, err := envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{CRDs: kinds})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return cfg
}

// anything is a definition of a kind that the tests need, and whose objects may be as they like.
func anything(group, version, kind, name string, scope apiextensions.ResourceScope) *apiextensions.CustomResourceDefinition {
	plural := name + "s"
	if kind == "RuntimeClass" {
		plural = name + "es"
	}
	schema := &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	return &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:        plural + "." + group,
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, for tests"},
		},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: group, Scope: scope,
			Names: apiextensions.CustomResourceDefinitionNames{
				Plural: plural, Singular: name, Kind: kind, ListKind: kind + "List",
			},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: schema},
			}},
		},
	}
}

// RunManager makes a client, and starts Trainer's controllers if they are to run.
func (f *Framework) RunManager(cfg *rest.Config, startControllers bool) (context.Context, client.Client) {
	gomega.Expect(trainer.AddToScheme(scheme.Scheme)).To(gomega.Succeed())
	gomega.Expect(jobset.AddToScheme(scheme.Scheme)).To(gomega.Succeed())
	gomega.Expect(plugins.AddToScheme(scheme.Scheme)).To(gomega.Succeed())
	gomega.Expect(volcano.AddToScheme(scheme.Scheme)).To(gomega.Succeed())
	api, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	if !startControllers || os.Getenv("CONTROLLER") != "theirs" {
		return ctx, api
	}
	manager, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	runtimes, err := runtimecore.New(ctx, manager.GetClient(), manager.GetFieldIndexer(), nil)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = controller.SetupControllers(manager, runtimes, ctrlpkg.Options{SkipNameValidation: ptr.To(true)})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	go func() {
		defer ginkgo.GinkgoRecover()
		gomega.Expect(manager.Start(ctx)).To(gomega.Succeed())
	}()
	return ctx, api
}

// Teardown ends what RunManager started.
func (f *Framework) Teardown() {
	f.cancel()
}
