    if (leadingKeys.length > 0) {
      // A start only reads this id.
      statements.push(this.allow([@read@], [@id@]));
    }
