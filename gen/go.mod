module pawl.internal/gen

go 1.26.0
