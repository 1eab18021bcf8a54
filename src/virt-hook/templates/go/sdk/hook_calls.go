package hooks

import (
	"errors"
	"runtime"
	"strings"
)

// asVeto is errors.As for a Veto, which may be wrapped. The text of the wrapping error is kept in the veto's reason.
func asVeto(err error) (Veto, bool) {
	var veto Veto
	if errors.As(err, &veto) {
		return Veto(err.Error()), true
	}
	return "", false
}

func (h *Hook) callPreStart(vmi string) error {
	if h.PreStart == nil {
		return nil
	}
	return withVMI(vmi, h.PreStart)
}

func (h *Hook) callPreCloudInitISO(vmi string, cloudInit *CloudInit) error {
	if h.PreCloudInitISO == nil {
		return nil
	}
	return withVMI(vmi, func(vmi *VMI) error { return h.PreCloudInitISO(vmi, cloudInit) })
}

func (h *Hook) callOnDefineDomain(vmi, xml string) (changed string, err error) {
	if h.OnDefineDomain == nil {
		return xml, nil
	}
	err = withVMI(vmi, func(vmi *VMI) error {
		domain, err := ParseDomain(xml)
		if err != nil {
			return err
		}
		err = h.OnDefineDomain(vmi, domain)
		changed = domain.String()
		return err
	})
	return changed, err
}

func (h *Hook) callOnAttachDevice(vmi, xml string) (changed string, err error) {
	if h.OnAttachDevice == nil {
		return xml, nil
	}
	err = withVMI(vmi, func(vmi *VMI) error {
		device, err := ParseDevice(xml)
		if err != nil {
			return err
		}
		err = h.OnAttachDevice(vmi, device)
		changed = device.String()
		return err
	})
	return changed, err
}

func (h *Hook) callPreMigrationSource(vmi string, migration *Migration) error {
	if h.PreMigrationSource == nil {
		return nil
	}
	return withVMI(vmi, func(vmi *VMI) error { return h.PreMigrationSource(vmi, migration) })
}

// withVMI calls a function of the hook with the VMI.
func withVMI(json string, call func(*VMI) error) error {
	return catchPanic(func() error {
		vmi, err := ParseVMI(json)
		if err != nil {
			return err
		}
		return call(vmi)
	})
}

func (h *Hook) callShutdown() error {
	if h.Shutdown == nil {
		return nil
	}
	return catchPanic(h.Shutdown)
}

// catchPanic makes an error of a panic, with the line of the hook that it came from.
func catchPanic(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = errors.New(panicText(value) + " (" + place() + ")")
		}
	}()
	return call()
}

func panicText(value any) string {
	switch value := value.(type) {
	case error:
		return value.Error()
	case string:
		return value
	case interface{ String() string }:
		return value.String()
	default:
		return "panic"
	}
}

// place is the innermost line outside of the SDK and the runtime.
func place() string {
	var counters [64]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(3, counters[:])])
	for {
		frame, more := frames.Next()
		own := strings.HasPrefix(frame.Function, "virt-hook/hooks.")
		if !own && !strings.HasPrefix(frame.Function, "runtime.") && frame.File != "" {
			return frame.File[strings.LastIndexByte(frame.File, '/')+1:] + ":" + itoa(frame.Line)
		}
		if !more {
			return "?"
		}
	}
}
