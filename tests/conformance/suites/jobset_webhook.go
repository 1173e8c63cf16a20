// Stands in for the file of JobSet's webhook tests that starts an API server and their webhook: here `astrago up`
// (KUBECONFIG) has our definitions.
package webhooktest

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

var (
	k8sClient client.Client
	ctx       = context.Background()
)

func TestAPIs(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "JobSet webhook")
}

var _ = BeforeSuite(func() {
	Expect(jobset.AddToScheme(scheme.Scheme)).To(Succeed())
	var err error
	k8sClient, err = client.New(ctrl.GetConfigOrDie(), client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
})
