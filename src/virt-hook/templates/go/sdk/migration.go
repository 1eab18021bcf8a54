package hooks

import "strconv"

// Parameter is a parameter of a migration: a number in decimal digits, or true or false.
type Parameter struct {
	Name, Value string
}

// Migration is the parameters of a migration to another node, to be changed in place. They are bandwidth (bytes in a
// second, 0 for no limit), parallel-connections (0 for one that carries everything), allow-post-copy,
// allow-auto-converge, completion-timeout (seconds for each GiB, 0 for never) and max-downtime (milliseconds).
type Migration struct {
	// Parameters are all parameters, in the host's order.
	Parameters []Parameter
}

// Get returns a parameter's value; ok is false for one that the host does not have.
func (m *Migration) Get(name string) (value string, ok bool) {
	for _, parameter := range m.Parameters {
		if parameter.Name == name {
			return parameter.Value, true
		}
	}
	return "", false
}

// Set sets a parameter.
func (m *Migration) Set(name, value string) {
	for i := range m.Parameters {
		if m.Parameters[i].Name == name {
			m.Parameters[i].Value = value
			return
		}
	}
	m.Parameters = append(m.Parameters, Parameter{name, value})
}

// Number returns a parameter as a number; 0 if it is not a number.
func (m *Migration) Number(name string) uint64 {
	value, _ := m.Get(name)
	number, _ := strconv.ParseUint(value, 10, 64)
	return number
}

// SetNumber sets a parameter to a number.
func (m *Migration) SetNumber(name string, value uint64) { m.Set(name, strconv.FormatUint(value, 10)) }

// Switch reports whether a parameter is true.
func (m *Migration) Switch(name string) bool {
	value, _ := m.Get(name)
	return value == "true"
}

// SetSwitch sets a parameter to true or false.
func (m *Migration) SetSwitch(name string, value bool) { m.Set(name, strconv.FormatBool(value)) }
