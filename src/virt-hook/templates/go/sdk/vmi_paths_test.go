package hooks

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// The same list as the tests of the other SDKs.
func TestPathsIntoAVMI(t *testing.T) {
	text, err := os.ReadFile("testdata/vmi_paths.json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		VMI     json.RawMessage
		Values  [][2]any
		Invalid []string
	}
	if err := json.Unmarshal(text, &list); err != nil || len(list.Values) == 0 {
		t.Fatal(err)
	}
	vmi := MustParseVMI(string(list.VMI))
	for _, entry := range list.Values {
		path, _ := entry[0].(string)
		if got := plain(vmi.Get(path)); !reflect.DeepEqual(got, entry[1]) {
			t.Errorf("%s: %v, and not %v", path, got, entry[1])
		}
	}
	for _, path := range list.Invalid {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is taken for a path", path)
				}
			}()
			vmi.Get(path)
		}()
	}
}

// plain is the value as encoding/json reads it.
func plain(value Value) any {
	if text, ok := value.Text(); ok {
		return text
	}
	if number, ok := value.Int(); ok {
		return float64(number)
	}
	if value.IsTrue() {
		return true
	}
	if names := value.Names(); len(names) > 0 {
		members := map[string]any{}
		for _, name := range names {
			members[name] = plain(value.Member(name))
		}
		return members
	}
	return nil
}
