package linkerd

// PortList is a set of ports, with the text that it was read from: proxies and
// tools are shown that. The zero value is empty. Immutable.
type PortList struct {
	PortSet
	text string
}

// ParsePortList reads a flag whose ports destination and policy have in common.
// The stricter of their grammars decides: what it takes means the same in both.
func ParsePortList(list string) (PortList, error) {
	set, err := ParsePolicyPorts(list)
	if err != nil {
		return PortList{}, err
	}
	return PortList{set, list}, nil
}

// MustParsePortList is ParsePortList for lists of our own. It panics on a bad one.
func MustParsePortList(list string) PortList {
	return must(ParsePortList(list))
}

// String is the list as it was written.
func (p PortList) String() string { return p.text }

// MarshalText implements encoding.TextMarshaler.
func (p PortList) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *PortList) UnmarshalText(text []byte) error {
	ports, err := ParsePortList(string(text))
	if err == nil {
		*p = ports
	}
	return err
}
