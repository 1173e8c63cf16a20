// Package definitions holds our CustomResourceDefinitions to what kube-apiserver asks of them, the estimated cost of
// their rules included, and lets its own validation decide on the objects that our tests have refused and accepted.
package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	limits "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

const root = "../../../.."

func read(t *testing.T, file string) *apiextensions.CustomResourceDefinition {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var written v1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &written); err != nil {
		t.Fatal(err)
	}
	scheme.Default(&written)
	written.Status.StoredVersions = []string{written.Spec.Versions[0].Name}
	definition := &apiextensions.CustomResourceDefinition{}
	if err := scheme.Convert(&written, definition, nil); err != nil {
		t.Fatal(err)
	}
	return definition
}

func TestOurDefinitionsAreValid(t *testing.T) {
	files, err := filepath.Glob(root + "/manifests/crds/*_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, problem := range definitions.ValidateCustomResourceDefinition(context.Background(), read(t, file)) {
				t.Error(problem)
			}
		})
	}
}

type change struct {
	Place string
	Value any
	Says  string
}

func TestJobSetsAreRefusedAsByUs(t *testing.T) {
	text, err := os.ReadFile(root + "/crates/controllers/tests/it/job_set_admission.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases struct{ Accepted, Refused []change }
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	definition := read(t, root+"/manifests/crds/jobset.x-k8s.io_jobsets.yaml")
	problems := validator(t, definition)
	for _, one := range cases.Refused {
		told := fmt.Sprint(problems(jobSet(t, one)).ToAggregate())
		if !strings.Contains(told, one.Says) {
			t.Errorf("%s %v: %s", one.Place, one.Value, told)
		}
	}
	for _, one := range cases.Accepted {
		for _, problem := range problems(jobSet(t, one)) {
			t.Errorf("%s %v: %s", one.Place, one.Value, problem)
		}
	}
}

// validator does what kube-apiserver does with a new object.
func validator(t *testing.T, definition *apiextensions.CustomResourceDefinition) func(map[string]any) field.ErrorList {
	t.Helper()
	found, err := apiextensions.GetSchemaForVersion(definition, definition.Spec.Versions[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := structural.NewStructural(found.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	values, _, err := validation.NewSchemaValidator(found.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	rules := cel.NewValidator(schema, true, limits.PerCallLimit)
	return func(object map[string]any) field.ErrorList {
		defaulting.Default(object, schema)
		problems := validation.ValidateCustomResource(nil, object, values)
		problems = append(problems, listtype.ValidateListSetsAndMaps(nil, schema, object)...)
		broken, _ := rules.Validate(context.Background(), nil, schema, object, nil, limits.RuntimeCELCostBudget)
		return append(problems, broken...)
	}
}

// jobSet is the set of job_set_admission.rs with one change.
func jobSet(t *testing.T, change change) map[string]any {
	t.Helper()
	template := func(name string) string {
		return `{"name": "` + name + `", "template": {"spec": {"parallelism": 1, "completions": 1,
			"template": {"spec": {"containers": [{"name": "node", "image": "i"}]}}}}}`
	}
	var set map[string]any
	text := `{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "demo"},
		"spec": {"replicatedJobs": [` + template("data") + `, ` + template("node") + `]}}`
	if err := yaml.Unmarshal([]byte(text), &set); err != nil {
		t.Fatal(err)
	}
	steps := strings.Split(change.Place, "/")[1:]
	var at any = set
	for _, step := range steps[:len(steps)-1] {
		if index, err := strconv.Atoi(step); err == nil {
			at = at.([]any)[index]
		} else {
			at = at.(map[string]any)[step]
		}
	}
	at.(map[string]any)[steps[len(steps)-1]] = change.Value
	return runtime.DeepCopyJSON(whole(set).(map[string]any))
}

// whole has whole numbers as an API server has them.
func whole(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, one := range value {
			value[key] = whole(one)
		}
	case []any:
		for index, one := range value {
			value[index] = whole(one)
		}
	case float64:
		return int64(value)
	}
	return value
}
