// Command packager writes the module as a module proxy serves it: VERSION.info, .mod and .zip.
// A proxy or GOPROXY=file://… can serve the folder.
package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	delayqueue "example.com/delay-queue/clients/go"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: packager FOLDER, in the folder of go.mod")
	}
	if err := writeModule(os.Args[1]); err != nil {
		log.Fatal("packager: ", err)
	}
}

func writeModule(folder string) error {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	module := strings.TrimPrefix(first, "module ")
	version := "v" + delayqueue.Version
	target := filepath.Join(folder, module, "@v")
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	files := map[string][]byte{version + ".info": info, version + ".mod": mod, "list": []byte(version + "\n")}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(target, name), data, 0o644); err != nil {
			return err
		}
	}
	path := filepath.Join(target, version+".zip")
	if err := writeZip(path, module+"@"+version+"/"); err != nil {
		return err
	}
	fmt.Println(path)
	return nil
}

// writeZip writes all files below the working directory, with this prefix.
func writeZip(path, prefix string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	archive := zip.NewWriter(file)
	err = filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		target, err := archive.Create(prefix + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = target.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return file.Close()
}
