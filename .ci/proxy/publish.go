package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

func publishAll(mods []*module, proxy string) error {
	for _, m := range mods {
		if err := m.publish(proxy); err != nil {
			return err
		}
	}
	return nil
}

// publish writes the module's entry in the proxy: a folder of files, as the go command reads it from file:// URLs.
func (m *module) publish(proxy string) error {
	if m.version == "" {
		return nil
	}
	mod, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	err = m.each(func(name string, data []byte) error {
		f, err := w.Create(m.path + "@" + m.version + "/" + name)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(m.path), "@v")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	// The go command wants a time; this one has no meaning.
	info := fmt.Sprintf(`{"Version":%q,"Time":"2000-01-01T00:00:00Z"}`, m.version)
	for name, data := range map[string][]byte{
		"list":              []byte(m.version + "\n"),
		m.version + ".info": []byte(info),
		m.version + ".mod":  mod,
		m.version + ".zip":  buf.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// each hands over what is in the module's zip. A module without a LICENSE gets that of the root, as from the go command;
// otherwise the sum would differ from the one of a tag.
func (m *module) each(f func(name string, data []byte) error) error {
	for _, name := range m.files {
		data, err := os.ReadFile(filepath.Join(m.dir, name))
		if err != nil {
			return err
		}
		if err := f(name, data); err != nil {
			return err
		}
	}
	if slices.Contains(m.files, "LICENSE") {
		return nil
	}
	data, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	return f("LICENSE", data)
}
